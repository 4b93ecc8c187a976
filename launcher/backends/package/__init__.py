"""dsrun for nodes that do not have it: what is sent to them, and the program that receives it."""
