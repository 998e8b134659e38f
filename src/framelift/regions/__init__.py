"""From a finished trace to something runnable: regions as generated Python source."""
