-- Lists of accounts by type and status.  On a large table it may be built ahead of
-- time, with CREATE INDEX CONCURRENTLY and the same words.
CREATE INDEX IF NOT EXISTS accounts_of_kind
  ON accounts (account_type, status, account_name COLLATE "C");
