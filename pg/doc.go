// Package pg is the only package that knows SQL. Each statement stands in a .sql file beside the function that runs
// it. Nothing here decides what a broker does: callers hand in what they know, the database answers what is so.
package pg
