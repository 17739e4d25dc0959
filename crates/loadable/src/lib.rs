//! loadable
