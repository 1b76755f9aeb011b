//! Publication: the plan of steps and the permanent links. Git itself is in `edge::git`.

pub mod permalink;
