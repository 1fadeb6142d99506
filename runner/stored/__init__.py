"""What is kept: rows, their files, and the frames read back from them."""
