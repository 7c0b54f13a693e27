-- When a session was last used, and by which client it was opened and last
-- refreshed, for those who ask whose it is.  Still no index names a column that
-- a refresh writes; those that a refresh leaves alone come last, where they
-- cost its log record nothing.

ALTER TABLE auth_sessions
  ADD COLUMN used_at       timestamptz,
  ADD COLUMN used_address  text,
  ADD COLUMN used_agent    text,
  ADD COLUMN login_address text,
  ADD COLUMN login_agent   text,
  -- The rows that are there have none: not valid, so that they are not read.
  ADD CONSTRAINT auth_sessions_client_bounded CHECK (
    octet_length(used_address) < 64 AND octet_length(login_address) < 64
    AND octet_length(used_agent) < 256 AND octet_length(login_agent) < 256)
    NOT VALID;

-- A deleted account keeps its id alone, which also stands for its name: the
-- name is free for somebody else.
ALTER TABLE accounts
  ADD COLUMN deleted_at timestamptz,
  DROP CONSTRAINT accounts_status_known,
  ADD CONSTRAINT accounts_status_known
    CHECK (status IN ('ACTIVE', 'DISABLED', 'DELETED')),
  ADD CONSTRAINT accounts_deleted_for_good CHECK (
    (status = 'DELETED') = (deleted_at IS NOT NULL)
    AND (deleted_at IS NULL OR account_name = account_id::text));
