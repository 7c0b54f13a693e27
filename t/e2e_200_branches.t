# A member with as many branches as there may be passes login, select-branch,
# gateway, downstream and refresh.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $s = $t->full_stack(echo => 1);

my $login = $s->login('two-hundred');
is $login->status, 200, 'login';
my $branches = $login->json->{branches};
is scalar @$branches, 200, '200 branches';
my @names = map { $_->{branchName} } @$branches;
is_deeply \@names, [ sort @names ], 'sorted by name';

my $res = $s->post('/api/auth/select-branch',
    { branchId => $branches->[199]{branchId} },
    token => $login->json->{accountAccessToken});
is $res->status, 200, 'select-branch of the last one';
my $token = $res->json->{accessToken};
my $claims = (jwt_decode($token))[1];
is scalar @{ $claims->{branch_ids} }, 200, '200 branch_ids';
cmp_ok length $token, '<', 16384, 'the token is under 16 KiB';
note length($token) . ' bytes';

$res = $s->current_context($token);
is $res->status, 200, 'the gateway lets it through';
my ($ids) = header_values($res->json, 'X-Branch-Ids');
is_deeply [ sort split /,/, $ids ],
    [ sort map { $_->{branchId} } @$branches ],
    'downstream gets every id';
is_deeply [ header_values($res->json, 'X-Active-Branch-Id') ],
    [ $branches->[199]{branchId} ], 'and the active one';
is scalar(header_values($res->json, 'Authorization')), 0,
    'but not the token, which the templates keep to themselves';

$res = $s->refresh($login->json->{refreshToken});
is $res->status, 200, 'refresh';
is scalar @{ (jwt_decode($res->json->{accessToken}))[1]{branch_ids} }, 200,
    'with all branch_ids';

# Also with the session's cookie beside it, as a browser sends both.
$res = $s->current_context($token,
    cookie => 'platform_refresh_token=' . $login->json->{refreshToken});
is $res->status, 200, 'with a cookie beside it';

# One more cannot be granted.
my $more = eval {
    $s->postgres->sql(<<'SQL');
insert into branches (branch_id, workspace_id, branch_name)
values ('00000000-0000-4000-8000-0005000f0001',
        '00000000-0000-4000-8000-000200000002', 'Store 201');
insert into branch_grants (member_id, branch_id, workspace_id)
select member_id, '00000000-0000-4000-8000-0005000f0001', workspace_id
  from members
 where account_id = '00000000-0000-4000-8000-000300000002';
SQL
    1;
};
ok !$more, 'a 201st grant is refused by the database';
like $@, qr/at most 200/, 'which says why';
is $s->login('two-hundred')->status, 200, 'login still works';

$t->done;
