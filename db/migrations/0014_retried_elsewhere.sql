-- Which of a session's last eight rotations were retried from elsewhere than
-- they came from: a bit each, the last rotation's is the lowest.  No index
-- names it, so that a refresh stays a HOT update; the rows that are there are
-- not written.

ALTER TABLE auth_sessions
  ADD COLUMN retry_elsewhere smallint NOT NULL DEFAULT 0;
