"""Messages between processing elements: frames of raw columns over TCP, in the element's own thread."""
