# Removing a key from the set makes its tokens stop working within one soft
# age, also those that were accepted before.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Keys;
use Test::More;
use Time::HiRes qw(sleep time);

my $SOFT = 5;

my $t = Platform::Test->new;
my ($kept, $removed) = map { jwt_key($_) } qw(a b);
my $issuer = $t->issuer(body => jwks($kept, $removed));
my $port = $t->port('gateway');

keys_gateway($t, main => 'worker_processes 4;', keys => <<"KEYS");
platform_gateway_key_soft_age ${SOFT}s;
platform_gateway_key_cooldown 1s;
KEYS
$t->start_nginx;

my @token = map { jwt_token('branch', $_, iat => past()) } $kept, $removed;

# Over enough connections that each worker has seen both tokens.
sub statuses {
    my ($token) = @_;

    my $bytes = http_request_bytes(GET => '/branch', token => $token);
    my %seen = map { $_->status => 1 }
        http_parallel([ map { [ $port, $bytes ] } 1 .. 24 ]);
    return join ' ', sort keys %seen;
}

ok eventually(sub { statuses($token[0]) eq '200' }), 'the kept key works';
is statuses($token[1]), '200', 'so does the other';

# Known keys never ask for a fetch, so this measures the soft age alone.

my $began = time;
$issuer->set(body => jwks($kept));
until (statuses($token[1]) eq '401' || time > $began + 3 * $SOFT) {
    is statuses($token[0]), '200', 'the kept key works all along';
    sleep 0.1;
}
is statuses($token[1]), '401', 'tokens of the removed key are refused';
cmp_ok time - $began, '<', 2 * $SOFT, 'after one soft age, not two';
is statuses($token[0]), '200', 'the kept key still works';

# The other way round: with another document, but the same keys.

my $count = $issuer->count;
$issuer->set(body => jwks($kept) . "\n");
ok eventually(sub { $issuer->count > $count }), 'another document';
is statuses($token[0]), '200', 'a document that only looks new';

$t->done;
