-- Every statement that writes a table reads its CHECK constraints anew from
-- their stored text, whichever columns it writes: those of auth_sessions were
-- a third of what the server spends on a refresh's row.  What a refresh does
-- not write is checked by triggers that name its columns instead; the others
-- are passed over.  The three columns of a retry, which the service sets in
-- one statement, are no longer checked.

ALTER TABLE auth_sessions
  DROP CONSTRAINT auth_sessions_status_known,
  DROP CONSTRAINT auth_sessions_revoked_has_time,
  DROP CONSTRAINT auth_sessions_revoked_later,
  DROP CONSTRAINT auth_sessions_scope_whole,
  DROP CONSTRAINT auth_sessions_client_bounded,
  DROP CONSTRAINT auth_sessions_retry_whole,
  -- The rows that are there passed the old one: not valid, so that they are
  -- not read.
  ADD CONSTRAINT auth_sessions_client_bounded CHECK (
    octet_length(used_address) < 64 AND octet_length(used_agent) < 256)
    NOT VALID;

CREATE FUNCTION auth_sessions_refused() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the row of auth_sessions violates "%"', TG_NAME
    USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
END;
$$;

CREATE TRIGGER auth_sessions_status_known
  AFTER INSERT OR UPDATE OF status ON auth_sessions
  FOR EACH ROW WHEN (NEW.status NOT IN ('ACTIVE', 'REVOKED'))
  EXECUTE FUNCTION auth_sessions_refused();

CREATE TRIGGER auth_sessions_revoked_has_time
  AFTER INSERT OR UPDATE OF status, revoked_at ON auth_sessions
  FOR EACH ROW
  WHEN ((NEW.status = 'REVOKED') <> (NEW.revoked_at IS NOT NULL))
  EXECUTE FUNCTION auth_sessions_refused();

CREATE TRIGGER auth_sessions_revoked_later
  AFTER INSERT OR UPDATE OF revoked_at, created_at ON auth_sessions
  FOR EACH ROW WHEN (NEW.revoked_at < NEW.created_at)
  EXECUTE FUNCTION auth_sessions_refused();

CREATE TRIGGER auth_sessions_scope_whole
  AFTER INSERT OR UPDATE OF workspace_id, member_id, active_branch_id
  ON auth_sessions
  FOR EACH ROW
  WHEN (num_nulls(NEW.workspace_id, NEW.member_id, NEW.active_branch_id)
        NOT IN (0, 3))
  EXECUTE FUNCTION auth_sessions_refused();

CREATE TRIGGER auth_sessions_login_bounded
  AFTER INSERT OR UPDATE OF login_address, login_agent ON auth_sessions
  FOR EACH ROW
  WHEN (octet_length(NEW.login_address) >= 64
        OR octet_length(NEW.login_agent) >= 256)
  EXECUTE FUNCTION auth_sessions_refused();
