-- The audit: a row for each change of accounts, places, members and grants, written
-- by triggers in the transaction of the change, so that no way of changing them is
-- missed.  Rows have ids and no names: the deletion of an account leaves nothing to
-- erase.  Nobody but the owner may write, change or delete a row.
--
-- A transaction states who makes the change in the setting platform.actor, a JSON
-- object: operator (a name), account and jti (of a token), requestId, address.  Its
-- credential and session name the events of a changed credential and of an ended
-- session.  Without this setting the operator is the role that is logged in.

CREATE SEQUENCE audit_event_ids AS bigint;

CREATE TABLE audit_events (
  event_id     bigint NOT NULL DEFAULT nextval('audit_event_ids'),
  event_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  event        text NOT NULL,
  operator     text,
  by_account   uuid,
  by_jti       uuid,
  account_id   uuid,
  session_id   uuid,
  tenant_id    uuid,
  workspace_id uuid,
  branch_id    uuid,
  member_id    uuid,
  roles        text[],
  request_id   text,
  address      text,
  PRIMARY KEY (event_at, event_id)
) PARTITION BY RANGE (event_at);
CREATE INDEX audit_events_account
  ON audit_events (account_id, event_at, event_id);

-- For rows of a month whose partition could not be made in time.
CREATE TABLE audit_events_rest PARTITION OF audit_events DEFAULT;

-- Makes the partitions of this month and the next, with the rows that came before
-- them, and drops those that ended before the time to keep, at least 30 days.
-- Returns the number of dropped partitions.  If a lock is taken, leaves the rest to
-- the next call.
CREATE FUNCTION audit_months(keep_s bigint) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '200ms'
SET timezone = 'UTC' AS $$
DECLARE
  month   timestamptz;
  part    text;
  gone    integer := 0;
  expired timestamptz := now() - make_interval(secs => keep_s);
BEGIN
  IF keep_s < 30 * 86400 THEN
    RAISE EXCEPTION 'audit events are kept for at least 30 days'
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  FOR n IN 0 .. 1 LOOP
    month := date_trunc('month', now()) + make_interval(months => n);
    part := 'audit_events_' || to_char(month, 'YYYY_MM');
    CONTINUE WHEN to_regclass(part) IS NOT NULL;
    -- Locks out nobody who writes to the other partitions.
    LOCK TABLE audit_events_rest IN ACCESS EXCLUSIVE MODE;
    EXECUTE format('CREATE TABLE %I (LIKE audit_events INCLUDING DEFAULTS)', part);
    EXECUTE format('WITH moved AS (DELETE FROM audit_events_rest'
                   '  WHERE event_at >= %L AND event_at < %L RETURNING *) '
                   'INSERT INTO %I SELECT * FROM moved',
                   month, month + interval '1 month', part);
    EXECUTE format('ALTER TABLE audit_events ATTACH PARTITION %I '
                   'FOR VALUES FROM (%L) TO (%L)',
                   part, month, month + interval '1 month');
  END LOOP;
  FOR part IN
    SELECT relname FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
     WHERE inhparent = 'audit_events'::regclass
       AND relname ~ '^audit_events_[0-9]{4}_[0-9]{2}$'
       AND to_date(right(relname, 7), 'YYYY_MM') + interval '1 month' <= expired
     ORDER BY relname
  LOOP
    EXECUTE format('DROP TABLE %I', part);
    gone := gone + 1;
  END LOOP;
  DELETE FROM audit_events_rest WHERE event_at < expired;
  RETURN gone;
EXCEPTION WHEN lock_not_available OR duplicate_table THEN
  RETURN 0;
END;
$$;

-- Writes rows of these events for whoever makes the change.
CREATE FUNCTION audit_write(
  events text[], account uuid, session uuid, tenant uuid, workspace uuid,
  branch uuid, member uuid, roles text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  actor jsonb := coalesce(
    nullif(current_setting('platform.actor', true), '')::jsonb, '{}');
BEGIN
  INSERT INTO audit_events (event, operator, by_account, by_jti, account_id,
    session_id, tenant_id, workspace_id, branch_id, member_id, roles, request_id,
    address)
  SELECT event, CASE WHEN actor->>'account' IS NULL
                THEN coalesce(actor->>'operator', session_user) END,
         (actor->>'account')::uuid, (actor->>'jti')::uuid, account, session,
         tenant, workspace, branch, member, roles,
         left(actor->>'requestId', 128), left(actor->>'address', 64)
    FROM unnest(events) AS event WHERE event IS NOT NULL;
END;
$$;

-- The name of an event that the transaction gives.
CREATE FUNCTION audit_named(kind text) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT nullif(current_setting('platform.actor', true), '')::jsonb->>kind
$$;

CREATE FUNCTION audit_accounts() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  events text[] := '{}';
  deleted boolean;
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM audit_write(ARRAY['account.added'], NEW.account_id, NULL, NULL, NULL,
                        NULL, NULL, NULL);
    RETURN NULL;
  ELSIF TG_OP = 'DELETE' THEN
    PERFORM audit_write(ARRAY['account.row_deleted'], OLD.account_id, NULL, NULL,
                        NULL, NULL, NULL, NULL);
    RETURN NULL;
  END IF;
  deleted := NEW.status = 'DELETED' AND OLD.status <> 'DELETED';
  IF NEW.status <> OLD.status THEN
    events := events || CASE NEW.status WHEN 'ACTIVE' THEN 'account.enabled'
                                        WHEN 'DISABLED' THEN 'account.disabled'
                                        ELSE 'account.deleted' END;
  END IF;
  IF NEW.account_type <> OLD.account_type THEN
    events := events || 'account.type_changed'::text;
  END IF;
  IF NEW.account_name <> OLD.account_name AND NOT deleted THEN
    events := events || 'account.renamed'::text;
  END IF;
  IF NEW.credential_hash <> OLD.credential_hash AND NOT deleted THEN
    events := events || coalesce(audit_named('credential'),
                                 'account.credential_set');
  END IF;
  IF NEW.sessions_valid_after > OLD.sessions_valid_after AND events = '{}' THEN
    events := events || 'account.sessions_revoked'::text;
  END IF;
  PERFORM audit_write(events, NEW.account_id, NULL, NULL, NULL, NULL, NULL, NULL);
  RETURN NULL;
END;
$$;
CREATE TRIGGER audit_accounts AFTER INSERT OR DELETE ON accounts
  FOR EACH ROW EXECUTE FUNCTION audit_accounts();
CREATE TRIGGER audit_accounts_changed
  AFTER UPDATE OF account_name, account_type, status, credential_hash,
                  sessions_valid_after ON accounts
  FOR EACH ROW EXECUTE FUNCTION audit_accounts();

-- A session that ends without being named is an ordinary logout, or follows a
-- lockout, which has a row of its own.
CREATE FUNCTION audit_sessions() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  PERFORM audit_write(ARRAY[audit_named('session')], NEW.account_id, NEW.session_id,
                      NULL, NULL, NULL, NULL, NULL);
  RETURN NULL;
END;
$$;
CREATE TRIGGER audit_sessions AFTER UPDATE OF status ON auth_sessions
  FOR EACH ROW WHEN (OLD.status = 'ACTIVE' AND NEW.status <> 'ACTIVE'
                     AND current_setting('platform.actor', true)
                         LIKE '%"session":%')
  EXECUTE FUNCTION audit_sessions();

-- Tenants, workspaces, branches.
CREATE FUNCTION audit_places() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  kind   text := TG_ARGV[0];
  is_now jsonb := to_jsonb(coalesce(NEW, OLD));
  was    jsonb := to_jsonb(OLD);
  named  text := kind || '_name';
  events text[];
BEGIN
  IF TG_OP = 'INSERT' THEN
    events := ARRAY[kind || '.added'];
  ELSIF TG_OP = 'DELETE' THEN
    events := ARRAY[kind || '.row_deleted'];
  ELSE
    events := ARRAY[
      CASE WHEN is_now->>named <> was->>named THEN kind || '.renamed' END,
      CASE WHEN is_now->>'status' = was->>'status' THEN NULL
           WHEN is_now->>'status' = 'ACTIVE' THEN kind || '.activated'
           ELSE kind || '.deactivated' END];
  END IF;
  PERFORM audit_write(events, NULL, NULL, (is_now->>'tenant_id')::uuid,
                      (is_now->>'workspace_id')::uuid,
                      (is_now->>'branch_id')::uuid, NULL, NULL);
  RETURN NULL;
END;
$$;
CREATE TRIGGER audit_tenants AFTER INSERT OR UPDATE OR DELETE ON tenants
  FOR EACH ROW EXECUTE FUNCTION audit_places('tenant');
CREATE TRIGGER audit_workspaces AFTER INSERT OR UPDATE OR DELETE ON workspaces
  FOR EACH ROW EXECUTE FUNCTION audit_places('workspace');
CREATE TRIGGER audit_branches AFTER INSERT OR UPDATE OR DELETE ON branches
  FOR EACH ROW EXECUTE FUNCTION audit_places('branch');

CREATE FUNCTION audit_members() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  m members := coalesce(NEW, OLD);
BEGIN
  IF TG_OP = 'UPDATE' AND NEW.status = OLD.status THEN
    RETURN NULL;
  END IF;
  PERFORM audit_write(
    ARRAY[CASE WHEN TG_OP = 'DELETE' THEN 'member.row_deleted'
               WHEN m.status = 'ACTIVE' THEN 'member.added'
               ELSE 'member.ended' END],
    m.account_id, NULL, NULL, m.workspace_id, NULL, m.member_id, NULL);
  RETURN NULL;
END;
$$;
CREATE TRIGGER audit_members AFTER INSERT OR UPDATE OR DELETE ON members
  FOR EACH ROW EXECUTE FUNCTION audit_members();

-- Grants and roles: a row for each branch that a statement changes.
CREATE FUNCTION audit_grants() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  PERFORM audit_write(ARRAY[TG_ARGV[0]], account_id, NULL, NULL, m.workspace_id,
                      branch_id, member_id, NULL)
     FROM changed JOIN members m USING (member_id);
  RETURN NULL;
END;
$$;
CREATE TRIGGER audit_granted AFTER INSERT ON branch_grants
  REFERENCING NEW TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION audit_grants('member.granted');
CREATE TRIGGER audit_revoked AFTER DELETE ON branch_grants
  REFERENCING OLD TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION audit_grants('member.revoked');

CREATE FUNCTION audit_roles() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  PERFORM audit_write(ARRAY[TG_ARGV[0]], account_id, NULL, NULL, workspace_id,
                      branch_id, member_id, roles)
     FROM (SELECT member_id, branch_id, array_agg(role_code ORDER BY role_code)
                                        AS roles
             FROM changed GROUP BY member_id, branch_id) AS c
     JOIN members m USING (member_id);
  RETURN NULL;
END;
$$;
CREATE TRIGGER audit_roles_granted AFTER INSERT ON member_roles
  REFERENCING NEW TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION audit_roles('member.roles_granted');
CREATE TRIGGER audit_roles_revoked AFTER DELETE ON member_roles
  REFERENCING OLD TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION audit_roles('member.roles_revoked');

-- Writes an event that changes no row: a refresh token that came a second time, or
-- from elsewhere.  Only the service can see it; no other event can be written.
CREATE FUNCTION audit_observe(event text, of_session uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  IF event NOT IN ('auth.refresh.reuse', 'auth.refresh.retried_elsewhere') THEN
    RAISE EXCEPTION 'not an event that is only observed: %', event
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  PERFORM audit_write(ARRAY[event], account_id, session_id, NULL, workspace_id,
                      active_branch_id, member_id, NULL)
     FROM auth_sessions WHERE session_id = of_session;
END;
$$;

DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY[
    'audit_months(bigint)', 'audit_named(text)', 'audit_accounts()',
    'audit_write(text[], uuid, uuid, uuid, uuid, uuid, uuid, text[])',
    'audit_sessions()', 'audit_places()', 'audit_members()', 'audit_grants()',
    'audit_roles()', 'audit_observe(text, uuid)']::regprocedure[]
  LOOP
    -- Whatever the search path of whoever writes.
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp',
                   f, current_schema());
  END LOOP;
END;
$$;

REVOKE EXECUTE
  ON FUNCTION audit_months(bigint), audit_named(text), audit_accounts(),
              audit_write(text[], uuid, uuid, uuid, uuid, uuid, uuid, text[]),
              audit_sessions(), audit_places(), audit_members(), audit_grants(),
              audit_roles(), audit_observe(text, uuid)
  FROM PUBLIC;

SELECT audit_months(400 * 86400);
