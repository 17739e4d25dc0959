//! linked
