//! What can be typed after `fumehood run` and `fumehood chat`.
