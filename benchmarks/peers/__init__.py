"""The same work written for other libraries, as their own users would write it."""
