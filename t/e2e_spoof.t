# Context headers that a client sends never reach downstream, whatever their
# spelling; the verified ones do, once.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $s = $t->full_stack(echo => 1);

my @SPOOF = map { ($_ => 'spoofed') } qw(
    X-Account-Id x-account-id X-ACCOUNT-ID x_account_id X.Account.Id
    X_Account-Id X~Account~Id X-Roles X.Roles x_roles X-Session-Id
    X-Account-Type X-Token-Type X-Token-Scope X-Workspace-Id X-Tenant-Id
    X-Member-Id X-Active-Branch-Id X-Branch-Ids x.branch_ids);
my $CONTEXT = '/api/workspaces/current-context';

my $token = $s->login('one')->json->{accessToken};
my $claims = (jwt_decode($token))[1];

sub expected {
    return {
        'X-Account-Id'       => $claims->{account_id},
        'X-Account-Type'     => $claims->{account_type},
        'X-Session-Id'       => $claims->{session_id},
        'X-Token-Type'       => 'workspace',
        'X-Token-Scope'      => 'BRANCH',
        'X-Workspace-Id'     => $claims->{workspace_id},
        'X-Tenant-Id'        => $claims->{tenant_id},
        'X-Member-Id'        => $claims->{member_id},
        'X-Active-Branch-Id' => $claims->{active_branch_id},
        'X-Branch-Ids'       => join(',', @{ $claims->{branch_ids} }),
        'X-Roles'            => join(',', @{ $claims->{roles} }),
    };
}

sub check {
    my ($name) = @_;

    my $plain = $s->current_context($token, headers => [ 'X-Other' => 'x' ]);
    is $plain->status, 200, "$name: control: a request without";
    my @seen = Platform::Test::Stack::context($plain->json);
    is scalar @seen, 11, "$name: each header once";
    is_deeply { map {@$_} @seen }, expected(), "$name: as verified";

    my $res = $s->current_context($token,
        headers => [ @SPOOF, 'X-Other' => 'x', 'X_Other' => 'kept?' ]);
    is $res->status, 200, "$name: a request with spoofed headers";
    @seen = Platform::Test::Stack::context($res->json);
    is scalar @seen, 11, "$name: each header once all the same";
    is_deeply { map {@$_} @seen }, expected(), "$name: none of the client's";
    unlike $res->body, qr/spoofed/, "$name: not a byte of them";
    is_deeply [ header_values($res->json, 'X-Other') ], ['x'],
        "$name: another header passes";

    # A hop-by-hop declaration removes nothing of ours.
    $res = $s->current_context($token,
        connection => 'close, X-Account-Id, X-Roles');
    is_deeply [ header_values($res->json, 'X-Account-Id') ],
        [ $claims->{account_id} ], "$name: Connection: X-Account-Id";

    # Two ids, once each.
    $res = $s->current_context($token, headers => [
        'X-Request-Id' => 'mine-1', 'X_Request_Id' => 'other',
        'X.Correlation.Id' => 'other' ]);
    is_deeply [ header_values($res->json, 'X-Request-Id') ], ['mine-1'],
        "$name: the client's request id, once";
    is_deeply [ header_values($res->json, 'X-Correlation-Id') ], ['mine-1'],
        "$name: the correlation id follows it";
    is_deeply [ $res->header_all('X-Request-Id') ], ['mine-1'],
        "$name: and the response has it once";
}

check('default');

# The operator allows such names; they are stripped all the same.

my $conf = $t->read_file('rendered/nginx.conf');
$conf =~ s/^(http\s*\{)/$1\n    underscores_in_headers on;\n/m
    or die 'no http block';
$conf =~ s/^(http\s*\{)/$1\n    ignore_invalid_headers off;\n/m;
$t->write_file('rendered/nginx.conf', $conf);
ok $s->nginx->reload, 'underscores_in_headers on, ignore_invalid_headers off';

my $res = $s->current_context($token, headers => [ 'X_Other' => 'seen' ]);
is_deeply [ header_values($res->json, 'X_Other') ], ['seen'],
    'control: such a name passes now';
check('allowed');

# On a public route nothing is injected, and nothing gets through.

my @log_before = $s->upstream->requests;
$res = http_post($s->gateway, '/api/auth/login', json => {
    account => 'one@demo.test',
    credential => $Platform::Test::Stack::CREDENTIAL },
    headers => \@SPOOF);
is $res->status, 200, 'login with spoofed headers is a login';
is scalar(my @now = $s->upstream->requests), scalar @log_before,
    'downstream is not asked';

# The identity face is no way around: it strips as well, and does not care.
$res = http_post($s->face, '/api/auth/login', json => {
    account => 'one@demo.test',
    credential => $Platform::Test::Stack::CREDENTIAL },
    headers => \@SPOOF);
is $res->status, 200, 'the same at the identity face';

$t->done;
