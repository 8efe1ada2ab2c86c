//! The planner with the real file tools.
