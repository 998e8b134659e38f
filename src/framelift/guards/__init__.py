"""From guards as data to the native programs that check them."""
