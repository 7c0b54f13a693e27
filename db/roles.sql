-- Least-privilege roles for an installation.  Run as a superuser in the
-- service's database, before the first `identity-fcgi migrate` and again after
-- every migration (it may be repeated at will):
--
--   psql -d platform -f db/roles.sql
--
--   platform_owner     owns the tables; migrates
--   platform_identity  serves requests: reads the directory, keeps sessions
--   platform_operator  manages accounts, workspaces, members and grants
--
-- All three are without login: grant them to login roles of your own, e.g.
--   CREATE ROLE identity_prod LOGIN IN ROLE platform_identity PASSWORD ...;
-- and let the migrating one act as the owner:
--   CREATE ROLE identity_migrate LOGIN IN ROLE platform_owner;
--   ALTER ROLE identity_migrate SET role = platform_owner;

DO $$
DECLARE
  role_name text;
BEGIN
  FOREACH role_name IN ARRAY
    ARRAY['platform_owner', 'platform_identity', 'platform_operator']
  LOOP
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = role_name) THEN
      EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
    END IF;
  END LOOP;
END;
$$;

REVOKE CREATE ON SCHEMA public
  FROM PUBLIC, platform_identity, platform_operator;
GRANT USAGE, CREATE ON SCHEMA public TO platform_owner;
GRANT USAGE ON SCHEMA public TO platform_identity, platform_operator;

DO $$
BEGIN
  -- These roles do not need tables or types of their own, not even temporary
  -- ones, which everybody may make by default.
  EXECUTE format('REVOKE CREATE, TEMPORARY ON DATABASE %I '
                 'FROM PUBLIC, platform_identity, platform_operator',
                 current_database());

  IF to_regclass('public.schema_migrations') IS NULL THEN
    RAISE NOTICE 'no tables yet: migrate, then run this file again';
    RETURN;
  END IF;

  GRANT SELECT ON schema_migrations, tenants, workspaces, branches, accounts,
                  members, branch_grants, member_roles, selectable_branches
    TO platform_identity, platform_operator;
  GRANT SELECT ON stand_in_secret TO platform_identity;
  -- The last function ends very many sessions at once.
  GRANT UPDATE (credential_hash, updated_at, sessions_valid_after) ON accounts
    TO platform_identity;
  GRANT SELECT, INSERT, UPDATE, DELETE
    ON auth_sessions, rotated_tokens, login_attempts
    TO platform_identity, platform_operator;
  GRANT SELECT ON client_scopes, client_secrets, client_keys
    TO platform_identity, platform_operator;
  GRANT INSERT, DELETE ON client_scopes, client_secrets, client_keys
    TO platform_operator;
  GRANT SELECT, INSERT, DELETE ON client_assertions
    TO platform_identity, platform_operator;
  GRANT SELECT, DELETE ON reset_codes TO platform_identity, platform_operator;
  GRANT UPDATE (tries) ON reset_codes TO platform_identity;
  GRANT SELECT, INSERT, UPDATE ON reset_misses TO platform_identity;
  GRANT INSERT, UPDATE ON reset_codes TO platform_operator;
  GRANT SELECT, INSERT, UPDATE, DELETE ON client_calls TO platform_identity;
  GRANT SELECT, DELETE ON client_calls TO platform_operator;
  -- What programs do by the API.
  GRANT INSERT (account_name, account_type, credential_hash),
        UPDATE (account_name, status, deleted_at)
    ON accounts TO platform_identity;
  GRANT INSERT, UPDATE ON tenants, workspaces, branches, members
    TO platform_identity;
  GRANT INSERT, UPDATE, DELETE ON branch_grants, member_roles
    TO platform_identity;
  GRANT INSERT, UPDATE ON reset_codes TO platform_identity;
  -- Second factors.  The operator encrypts secrets anew, and removes what a person
  -- has lost.
  GRANT SELECT, DELETE ON factors TO platform_identity, platform_operator;
  GRANT INSERT, UPDATE (factor_name, confirmed_at, used_at, last_step, sign_count,
                        synced, count_fell_at) ON factors TO platform_identity;
  GRANT UPDATE (key_id, secret) ON factors TO platform_operator;
  GRANT SELECT, INSERT, DELETE, UPDATE (used_at) ON recovery_codes
    TO platform_identity;
  GRANT SELECT ON recovery_codes TO platform_operator;
  GRANT SELECT, INSERT, UPDATE, DELETE ON factor_tokens, factor_failures
    TO platform_identity;
  GRANT SELECT, DELETE ON factor_tokens, factor_failures TO platform_operator;
  GRANT SELECT, INSERT, UPDATE ON passkey_users TO platform_identity;
  -- Only triggers write these tables.
  GRANT SELECT ON audit_events TO platform_identity, platform_operator;
  GRANT SELECT, DELETE ON session_revocations
    TO platform_identity, platform_operator;
  GRANT INSERT, UPDATE ON tenants, workspaces, branches, accounts, members
    TO platform_operator;
  GRANT INSERT, UPDATE, DELETE ON branch_grants, member_roles
    TO platform_operator;

  -- By default everybody may call most functions; some installations revoke
  -- that.
  GRANT EXECUTE
    ON FUNCTION login_attempt_begin, login_attempt_count,
                login_attempt_settle, login_attempt_uncount,
                login_attempt_wait,
                session_revocation_mark, audit_months, audit_observe,
                check_branch_limits, import_account, import_id, import_list,
                import_the_one
    TO platform_identity;
  GRANT EXECUTE
    ON FUNCTION check_branch_limits, import_account, import_id, import_list,
                import_the_one, audit_months
    TO platform_operator;
END;
$$;
