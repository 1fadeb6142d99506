"""One boot after the other: started, watched, asked, loaded, ended."""
