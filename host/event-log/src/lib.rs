//! Records on disk: written in order by one thread, read by many, chained so that a change shows.
