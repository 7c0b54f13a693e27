-- Lists of workspaces and branches have their order from an index, and go on after
-- any of them at once.

CREATE INDEX tenants_name ON tenants (tenant_name COLLATE "C");

CREATE INDEX workspaces_in_tenant
  ON workspaces (tenant_id, workspace_name COLLATE "C", workspace_id);
DROP INDEX workspaces_tenant;

CREATE INDEX branches_of_workspace
  ON branches (workspace_id, branch_name COLLATE "C", branch_id);
DROP INDEX branches_workspace;
