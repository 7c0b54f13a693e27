-- Sessions.  A refresh replaces jti and expires_at of one row.  No index names
-- either column and pages are left partly empty, so that the new version fits
-- beside the old one and no index is touched (a HOT update).  That is why
-- there is no index on expires_at.

CREATE TABLE auth_sessions (
  session_id       uuid PRIMARY KEY,
  account_id       uuid NOT NULL REFERENCES accounts,
  workspace_id     uuid,
  member_id        uuid,
  active_branch_id uuid,
  jti              uuid NOT NULL,
  status           text NOT NULL DEFAULT 'ACTIVE',
  created_at       timestamptz NOT NULL,
  expires_at       timestamptz NOT NULL,
  revoked_at       timestamptz,
  CONSTRAINT auth_sessions_status_known
    CHECK (status IN ('ACTIVE', 'REVOKED')),
  CONSTRAINT auth_sessions_revoked_has_time
    CHECK ((status = 'REVOKED') = (revoked_at IS NOT NULL)),
  CONSTRAINT auth_sessions_scope_whole
    CHECK (num_nulls(workspace_id, member_id, active_branch_id) IN (0, 3)),
  CONSTRAINT auth_sessions_expires_later CHECK (expires_at > created_at),
  CONSTRAINT auth_sessions_revoked_later CHECK (revoked_at >= created_at),
  -- The member is this account's in this workspace, the branch is of it too.
  CONSTRAINT auth_sessions_member
    FOREIGN KEY (member_id, account_id, workspace_id)
    REFERENCES members (member_id, account_id, workspace_id),
  CONSTRAINT auth_sessions_branch
    FOREIGN KEY (active_branch_id, workspace_id)
    REFERENCES branches (branch_id, workspace_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX auth_sessions_account ON auth_sessions (account_id);

-- Nothing leads out of REVOKED, and a session never changes hands.  The
-- trigger names its columns: a rotation does not even look at it.
CREATE FUNCTION auth_sessions_frozen() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'a revoked session stays as it is, and no session changes '
                  'its account'
    USING ERRCODE = 'check_violation', CONSTRAINT = 'auth_sessions_frozen';
END;
$$;

CREATE TRIGGER auth_sessions_frozen
  BEFORE UPDATE OF session_id, account_id, status, revoked_at, created_at,
                   workspace_id, member_id, active_branch_id
  ON auth_sessions
  FOR EACH ROW
  WHEN (OLD.status = 'REVOKED'
        OR NEW.account_id <> OLD.account_id
        OR NEW.session_id <> OLD.session_id
        OR NEW.created_at <> OLD.created_at)
  EXECUTE FUNCTION auth_sessions_frozen();

-- Refresh tokens rotated out a short while ago.  Written only where reuse of a
-- token revokes its session: one that is not listed here is no second tab's.
CREATE TABLE rotated_tokens (
  session_id uuid NOT NULL REFERENCES auth_sessions ON DELETE CASCADE,
  jti        uuid NOT NULL,
  rotated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (session_id, jti)
);
