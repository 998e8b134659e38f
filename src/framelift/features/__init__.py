"""Parts of torch and other libraries that need handlers of their own, a package or module for each."""
