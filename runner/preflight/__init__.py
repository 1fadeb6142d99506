"""What is found out before anything starts: images, models, flags, the machine."""
