"""dsrun for nodes that lack it: the archive for them, and the program that receives it."""
