-- Limits that keep a branch token within one request header: 200 branches a
-- member and 32 roles a grant; and 1,000 branches an account in all, so that
-- the list that login answers with is bounded too.
--
-- The account's row is the lock: two grants made at the same time are counted
-- one after the other.

CREATE FUNCTION check_branch_limits(checked_account uuid) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  most  bigint;
  total bigint;
BEGIN
  PERFORM 1 FROM accounts WHERE account_id = checked_account
      FOR NO KEY UPDATE;
  SELECT max(n), sum(n) INTO most, total
    FROM (SELECT count(*) AS n
            FROM members m
            JOIN branch_grants g ON g.member_id = m.member_id
            JOIN branches b ON b.branch_id = g.branch_id
           WHERE m.account_id = checked_account AND b.status = 'ACTIVE'
           GROUP BY m.member_id) AS by_member;
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

CREATE FUNCTION branch_grants_limit() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM check_branch_limits(m.account_id)
     FROM members m WHERE m.member_id = NEW.member_id;
  RETURN NULL;
END;
$$;

CREATE TRIGGER branch_grants_limit
  AFTER INSERT OR UPDATE ON branch_grants
  FOR EACH ROW EXECUTE FUNCTION branch_grants_limit();

CREATE FUNCTION branches_limit() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  granted uuid;
BEGIN
  -- In order of id, so that two activations cannot deadlock.
  FOR granted IN
    SELECT DISTINCT m.account_id
      FROM branch_grants g JOIN members m ON m.member_id = g.member_id
     WHERE g.branch_id = NEW.branch_id
     ORDER BY m.account_id
  LOOP
    PERFORM check_branch_limits(granted);
  END LOOP;
  RETURN NULL;
END;
$$;

CREATE TRIGGER branches_limit
  AFTER UPDATE OF status ON branches
  FOR EACH ROW WHEN (NEW.status = 'ACTIVE' AND OLD.status <> 'ACTIVE')
  EXECUTE FUNCTION branches_limit();

CREATE FUNCTION member_roles_limit() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  n bigint;
BEGIN
  PERFORM 1 FROM branch_grants
    WHERE member_id = NEW.member_id AND branch_id = NEW.branch_id
      FOR NO KEY UPDATE;
  SELECT count(*) INTO n FROM member_roles
   WHERE member_id = NEW.member_id AND branch_id = NEW.branch_id;
  IF n > 32 THEN
    RAISE EXCEPTION 'a member may hold at most 32 roles in a branch'
      USING ERRCODE = 'check_violation', CONSTRAINT = 'roles_per_grant';
  END IF;
  RETURN NULL;
END;
$$;

CREATE TRIGGER member_roles_limit
  AFTER INSERT OR UPDATE ON member_roles
  FOR EACH ROW EXECUTE FUNCTION member_roles_limit();
