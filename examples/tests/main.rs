//! The examples' shared parts at work.

mod planner;
