-- A refresh that is sent again, since its answer was lost, gets the same token
-- again: what replaced retry_jti, and when that was issued (its expiry is the
-- session's).  A process of an older version replaces jti and leaves these as
-- they are; then retry_next is no longer jti, and there is no retry.  No index
-- names them, so that a refresh stays a HOT update.

ALTER TABLE auth_sessions
  ADD COLUMN retry_jti  uuid,
  ADD COLUMN retry_next uuid,
  ADD COLUMN retry_iat  timestamptz,
  -- The rows that are there have none: not valid, so that they are not read.
  ADD CONSTRAINT auth_sessions_retry_whole CHECK (
    num_nulls(retry_jti, retry_next, retry_iat) IN (0, 3)
    AND retry_next <> retry_jti)
    NOT VALID;
