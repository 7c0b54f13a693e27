-- Who may work where: tenants, their workspaces and branches, the accounts,
-- and which member of a workspace is granted which branch in which roles.
-- Rows are switched off by status, not deleted, once sessions may name them.

CREATE TABLE tenants (
  tenant_id   uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  tenant_name text NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT tenants_name_plain CHECK (
    octet_length(tenant_name) BETWEEN 1 AND 200
    AND tenant_name COLLATE "C" !~ '[[:cntrl:]]')
);

CREATE TABLE workspaces (
  workspace_id   uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  tenant_id      uuid NOT NULL REFERENCES tenants,
  workspace_name text NOT NULL,
  status         text NOT NULL DEFAULT 'ACTIVE',
  created_at     timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT workspaces_status_known CHECK (status IN ('ACTIVE', 'INACTIVE')),
  CONSTRAINT workspaces_name_plain CHECK (
    octet_length(workspace_name) BETWEEN 1 AND 200
    AND workspace_name COLLATE "C" !~ '[[:cntrl:]]')
);
CREATE INDEX workspaces_tenant ON workspaces (tenant_id);

CREATE TABLE branches (
  branch_id    uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  workspace_id uuid NOT NULL REFERENCES workspaces,
  branch_name  text NOT NULL,
  status       text NOT NULL DEFAULT 'ACTIVE',
  created_at   timestamptz NOT NULL DEFAULT now(),
  -- The target of foreign keys that say "a branch of this workspace".
  CONSTRAINT branches_in_workspace UNIQUE (branch_id, workspace_id),
  CONSTRAINT branches_status_known CHECK (status IN ('ACTIVE', 'INACTIVE')),
  CONSTRAINT branches_name_plain CHECK (
    octet_length(branch_name) BETWEEN 1 AND 200
    AND branch_name COLLATE "C" !~ '[[:cntrl:]]')
);
CREATE INDEX branches_workspace ON branches (workspace_id);

-- account_name is stored as login compares it: trimmed, A-Z folded.
CREATE TABLE accounts (
  account_id      uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  account_name    text NOT NULL,
  account_type    text NOT NULL DEFAULT 'CUSTOMER',
  status          text NOT NULL DEFAULT 'ACTIVE',
  credential_hash text NOT NULL,
  created_at      timestamptz NOT NULL DEFAULT now(),
  updated_at      timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT accounts_type_known
    CHECK (account_type IN ('CUSTOMER', 'OPERATOR', 'SYSTEM')),
  CONSTRAINT accounts_status_known CHECK (status IN ('ACTIVE', 'DISABLED')),
  CONSTRAINT accounts_credential_is_argon2id CHECK (
    credential_hash LIKE '$argon2id$%'
    AND octet_length(credential_hash) < 128),
  CONSTRAINT accounts_name_normalised CHECK (
    octet_length(account_name) BETWEEN 1 AND 320
    AND account_name COLLATE "C" !~ '[A-Z[:cntrl:]]'
    AND account_name = btrim(account_name, ' '))
);
-- Byte order: names are compared exactly, whatever the database's locale.
CREATE UNIQUE INDEX accounts_name ON accounts (account_name COLLATE "C");

CREATE TABLE members (
  member_id    uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  account_id   uuid NOT NULL REFERENCES accounts,
  workspace_id uuid NOT NULL REFERENCES workspaces,
  status       text NOT NULL DEFAULT 'ACTIVE',
  created_at   timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT members_once UNIQUE (account_id, workspace_id),
  -- Targets of foreign keys, as above.
  CONSTRAINT members_in_workspace UNIQUE (member_id, workspace_id),
  CONSTRAINT members_of_account UNIQUE (member_id, account_id, workspace_id),
  CONSTRAINT members_status_known CHECK (status IN ('ACTIVE', 'INACTIVE'))
);
CREATE INDEX members_workspace ON members (workspace_id);

-- A grant carries the workspace so that member and branch cannot be of two.
CREATE TABLE branch_grants (
  member_id    uuid NOT NULL,
  branch_id    uuid NOT NULL,
  workspace_id uuid NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (member_id, branch_id),
  CONSTRAINT branch_grants_member FOREIGN KEY (member_id, workspace_id)
    REFERENCES members (member_id, workspace_id),
  CONSTRAINT branch_grants_branch FOREIGN KEY (branch_id, workspace_id)
    REFERENCES branches (branch_id, workspace_id)
);
CREATE INDEX branch_grants_branch_id ON branch_grants (branch_id);

CREATE TABLE member_roles (
  member_id uuid NOT NULL,
  branch_id uuid NOT NULL,
  role_code text COLLATE "C" NOT NULL,
  PRIMARY KEY (member_id, branch_id, role_code),
  CONSTRAINT member_roles_grant FOREIGN KEY (member_id, branch_id)
    REFERENCES branch_grants (member_id, branch_id) ON DELETE CASCADE,
  CONSTRAINT member_roles_code_plain
    CHECK (role_code ~ '^[A-Za-z0-9_.:-]{1,32}$')
);

-- What "selectable" means is said here and nowhere else.
CREATE VIEW selectable_branches AS
  SELECT m.account_id, m.member_id, w.tenant_id,
         w.workspace_id, w.workspace_name, b.branch_id, b.branch_name
    FROM members m
    JOIN accounts a ON a.account_id = m.account_id
    JOIN workspaces w ON w.workspace_id = m.workspace_id
    JOIN branch_grants g ON g.member_id = m.member_id
    JOIN branches b ON b.branch_id = g.branch_id
   WHERE a.status = 'ACTIVE' AND m.status = 'ACTIVE'
     AND w.status = 'ACTIVE' AND b.status = 'ACTIVE';
