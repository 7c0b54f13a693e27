-- An account is locked out at once, however many sessions it has: a session
-- that was not opened after this moment is over, whatever its row says.  The
-- rows are marked afterwards.  Both moments are of the database's clock.

ALTER TABLE accounts
  ADD COLUMN sessions_valid_after timestamptz NOT NULL DEFAULT '-infinity';

-- Leads to the active sessions of an account in the order of their age.  Still
-- none of its columns is one that a rotation writes.  On a large table it may
-- be built ahead of time, with CREATE INDEX CONCURRENTLY and the same words.
CREATE INDEX IF NOT EXISTS auth_sessions_of_account
  ON auth_sessions (account_id, status, created_at);
DROP INDEX auth_sessions_account;
