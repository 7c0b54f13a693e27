# What the gateway tells its own host alone: to others the paths are not there.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Metrics;
use Test::More;

my $t = Platform::Test->new;
$t->full_stack;
my $port = $t->port('gateway');

ok eventually(sub { http_get($port, '/readyz')->status == 200 }, 20), 'ready';
my $res = http_get($port, '/internal/metrics');
is $res->status, 200, 'metrics for this host';
my ($sample) = metrics_parse($res->body);
is $sample->{'platform_gateway_key_set_keys'}, 1, 'one key';
ok exists $sample->{
    'platform_gateway_requests_total{route="local",decision="allow"}'},
    'routes by their ids';
is_problem(http_get($port, '/internal/metrics', from => '127.0.0.2'), 404,
    'GATEWAY_ROUTE_NOT_FOUND', 'metrics for another host');
is_problem(http_get($port, '/internal/metrics',
    headers => [ 'X-Forwarded-For' => '127.0.0.1' ], from => '127.0.0.2'), 404,
    'GATEWAY_ROUTE_NOT_FOUND', 'a host that says it is this one');
is_problem(http_post($port, '/internal/metrics', body => ''), 405,
    'METHOD_NOT_ALLOWED', 'metrics are read only');

my %question = (method => 'GET', path => '/api/workspaces/branches');
$res = http_post($port, '/internal/explain', json => \%question);
is $res->status, 200, 'an explanation for this host';
is $res->json->{reason}, 'token_missing', 'which says why';
is $res->json->{location}{routeId}, 'entitlement-workspaces', 'and where';
is_problem(http_post($port, '/internal/explain', json => \%question,
    from => '127.0.0.2'), 404, 'GATEWAY_ROUTE_NOT_FOUND',
    'an explanation for another host');

$t->done;
