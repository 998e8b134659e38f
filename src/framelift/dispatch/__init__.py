"""What happens on a call: frames looked up, traced, compiled and run."""
