-- Accounts may come along from another system, with their hashes; a login
-- replaces those by Argon2id.

ALTER TABLE accounts
  DROP CONSTRAINT accounts_credential_is_argon2id,
  ADD CONSTRAINT accounts_credential_is_hash CHECK (
    credential_hash ~ '^[$](argon2id?|2[aby]|5|6|pbkdf2-sha256)[$]'
    AND octet_length(credential_hash) < 256);

-- Names of workspaces are looked up by the thousand.
CREATE INDEX workspaces_name ON workspaces (workspace_name COLLATE "C");

-- As before, but from the account to its grants whatever the planner knows of
-- the tables: in one that was empty a moment ago the way over the branch, which
-- everybody may be granted, looks as short.
CREATE OR REPLACE FUNCTION check_branch_limits(checked_account uuid)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  most  bigint;
  total bigint;
BEGIN
  PERFORM 1 FROM accounts WHERE account_id = checked_account
      FOR NO KEY UPDATE;
  SELECT max(n), sum(n) INTO most, total
    FROM (SELECT (SELECT count(*) FROM branch_grants g
                   WHERE g.member_id = m.member_id
                     AND (SELECT b.status = 'ACTIVE' FROM branches b
                           WHERE b.branch_id = g.branch_id)) AS n
            FROM members m
           WHERE m.account_id = checked_account) AS by_member;
  IF most > 200 THEN
    RAISE EXCEPTION 'a member may be granted at most 200 active branches'
      USING ERRCODE = 'check_violation', CONSTRAINT = 'branches_per_member';
  END IF;
  IF total > 1000 THEN
    RAISE EXCEPTION 'an account may be granted at most 1000 active branches'
      USING ERRCODE = 'check_violation', CONSTRAINT = 'branches_per_account';
  END IF;
END;
$$;

DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION check_branch_limits SET search_path = %I, '
                 'pg_temp', current_schema());
END;
$$;

-- The elements of an array, each an object of these members at most; a null
-- or missing array has none.
CREATE FUNCTION import_list(list jsonb, what text, members text[])
RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
DECLARE
  element jsonb;
BEGIN
  IF jsonb_typeof(coalesce(list, 'null')) = 'null' THEN
    RETURN;
  ELSIF jsonb_typeof(list) <> 'array' THEN
    RAISE EXCEPTION '% is no array', what USING ERRCODE = 'data_exception';
  END IF;
  FOR element IN SELECT jsonb_array_elements(list) LOOP
    IF jsonb_typeof(element) <> 'object' THEN
      RAISE EXCEPTION '% has an element that is no object', what
        USING ERRCODE = 'data_exception';
    ELSIF element - members <> '{}' THEN
      RAISE EXCEPTION '% has other members than %', what,
                      array_to_string(members, ', ')
        USING ERRCODE = 'data_exception';
    END IF;
    RETURN NEXT element;
  END LOOP;
END;
$$;

-- The id that reference is; null where it has not the form of one, and so is a
-- name.
CREATE FUNCTION import_id(reference text) RETURNS uuid
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN reference ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
              THEN reference::uuid END
$$;

-- The one of ids, all that reference names, be it by name or id.
CREATE FUNCTION import_the_one(
  ids uuid[], what text, reference jsonb, place text)
RETURNS uuid LANGUAGE plpgsql AS $$
BEGIN
  IF jsonb_typeof(coalesce(reference, 'null')) <> 'string' THEN
    RAISE EXCEPTION '% is missing, or no string', what
      USING ERRCODE = 'data_exception';
  ELSIF cardinality(ids) IS DISTINCT FROM 1 THEN
    RAISE EXCEPTION 'there is % % called "%"%',
                    CASE WHEN ids IS NULL THEN 'no' ELSE 'more than one' END,
                    what, reference #>> '{}', place
      USING ERRCODE = 'data_exception';
  END IF;
  RETURN ids[1];
END;
$$;

-- Makes an account of a line of JSON, whose account and hash were checked:
-- 'made'; 'known', and nothing is changed; or else the reason, which is the
-- name of a constraint or a sentence.
CREATE FUNCTION import_account(name text, hash text, line text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  given      jsonb;
  membership jsonb;
  granted    jsonb;
  roles      jsonb;
  account    uuid;
  workspace  uuid;
  member     uuid;
  branch     uuid;
  violated   text;
  id         uuid;
  named      text;
BEGIN
  IF EXISTS (SELECT FROM accounts WHERE account_name COLLATE "C" = name) THEN
    RETURN 'known';
  END IF;
  SELECT * INTO given FROM import_list(
    jsonb_build_array(line::jsonb), 'the line',
    ARRAY['account', 'type', 'hash', 'memberships']);
  INSERT INTO accounts (account_name, account_type, credential_hash)
  VALUES (name, coalesce(given->>'type', 'CUSTOMER'), hash)
  ON CONFLICT DO NOTHING RETURNING account_id INTO account;
  IF account IS NULL THEN
    RETURN 'known';
  END IF;
  FOR membership IN SELECT * FROM import_list(
    given->'memberships', 'memberships', ARRAY['workspace', 'grants'])
  LOOP
    id := import_id(membership->>'workspace');
    named := CASE WHEN id IS NULL THEN membership->>'workspace' END;
    workspace := import_the_one(
      (SELECT array_agg(workspace_id) FROM workspaces
        WHERE workspace_id = id OR workspace_name COLLATE "C" = named),
      'workspace', membership->'workspace', '');
    INSERT INTO members (account_id, workspace_id)
    VALUES (account, workspace) RETURNING member_id INTO member;
    FOR granted IN SELECT * FROM import_list(
      membership->'grants', 'grants', ARRAY['branch', 'roles'])
    LOOP
      id := import_id(granted->>'branch');
      named := CASE WHEN id IS NULL THEN granted->>'branch' END;
      branch := import_the_one(
        (SELECT array_agg(branch_id) FROM branches
          WHERE workspace_id = workspace
            AND (branch_id = id OR branch_name COLLATE "C" = named)),
        'branch', granted->'branch',
        format(' in "%s"', membership->>'workspace'));
      INSERT INTO branch_grants (member_id, branch_id, workspace_id)
      VALUES (member, branch, workspace);
      roles := coalesce(nullif(granted->'roles', 'null'), '[]');
      IF jsonb_typeof(roles) <> 'array'
         OR jsonb_path_exists(roles, 'strict $[*] ? (@.type() <> "string")')
      THEN
        RAISE EXCEPTION 'roles is no array of strings'
          USING ERRCODE = 'data_exception';
      END IF;
      INSERT INTO member_roles (member_id, branch_id, role_code)
      SELECT member, branch, jsonb_array_elements_text(roles)
      ON CONFLICT DO NOTHING;
    END LOOP;
  END LOOP;
  RETURN 'made';
EXCEPTION
  WHEN integrity_constraint_violation OR data_exception THEN
    GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
    RETURN coalesce(nullif(violated, ''), SQLERRM);
END;
$$;
