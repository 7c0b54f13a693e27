# What a token costs in the cache, all included, that a full cache does not
# grow, and that nothing of a token stays in memory once the cache let it go.

use Platform::Test;

plan skip_all => 'memory is that of nginx in a plain build only'
    if Platform::Test::Env::asan() || Platform::Test::Env::valgrind();

my ($CACHED, $LIMIT) = (300, 3 * 1024);

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $issuer = $t->issuer(body => jwks($key));
my $port = $t->port('gateway');

sub start ($entries) {
    my $nginx = $t->gateway_conf('location / { platform_gateway_access branch; empty_gif; }',
        main => 'worker_processes 1;', http => "keepalive_requests 10000;
            large_client_header_buffers 4 32k; platform_gateway_token_cache entries=$entries;");
    $t->start_gateway;
    return $nginx;
}
my $nginx = start($CACHED);

my @tokens = map { jwt_token('branch', $key, branch_ids => [ map { uuid() } 1 .. 3 ]) }
    0 .. 2 * $CACHED;
my $size = length $tokens[0];
note "a token has $size bytes";
ok $size > 1200 && $size < 1500, 'tokens of about 1.3 KB';

# Sends the tokens over a connection; returns the kilobytes of the worker.
sub rss_after (@which) {
    my $c = Platform::Test::Http->new(port => $port);
    my $passed = grep { $c->request(GET => '/', token => $tokens[$_])->status == 200 } @which;
    $c->close;
    is $passed, @which, "$passed requests pass";
    http_get($port, '/ready');
    my ($worker) = $nginx->workers;
    open my $fh, '<', "/proc/$worker/status" or die "status: $!\n";
    return (map {/^VmRSS:\s+(\d+)/} <$fh>)[0];
}

my $empty = rss_after((0) x $CACHED);
my $full = rss_after(1 .. $CACHED);
my $each = ($full - $empty) * 1024 / $CACHED;
note sprintf '%.0f bytes for each token', $each;
cmp_ok $each, '>', $size, 'control: they are in memory';
cmp_ok $each, '<=', $LIMIT, "at most $LIMIT bytes a token";

my @later;
push @later, rss_after(1 .. 2 * $CACHED) for 1 .. 2;
note "$empty kB, $full kB full, later @later";
cmp_ok $later[-1] - $full, '<=', 0.2 * ($full - $empty), 'a full cache stays as large';

# An entry holds what goes upstream, last the roles, and right behind it the
# token: nowhere else in the worker does it stand behind them or behind zeros.

$nginx->stop;
$nginx = start(8);

sub token_of ($roles) { return jwt_token('branch', $key, roles => [ ('r' x 100) x $roles ]) }

# How many of the tokens there are in entries of the worker's memory.
sub entries (@tokens) {
    my ($worker) = $nginx->workers;
    my $found = 0;
    open my $maps, '<', "/proc/$worker/maps" or die "maps: $!\n";
    open my $mem, '<:raw', "/proc/$worker/mem" or die "mem: $!\n";
    no warnings 'portable';    # addresses have 64 bits
    while (<$maps>) {
        my ($from, $to) = map {hex} /^([0-9a-f]+)-([0-9a-f]+) rw/ or next;
        sysseek($mem, $from, 0) && sysread($mem, my $bytes, $to - $from) or next;
        for my $token (@tokens) {
            for (my $at = 0; ($at = index $bytes, $token, $at) >= 0; $at++) {
                $found++ if substr($bytes, $at - 4, 4) =~ /\A(?:rrr|\0{3})\0\z/;
            }
        }
    }
    return $found;
}

my @first = map { token_of(40) } 1 .. 8;
is http_get($port, '/', token => $_)->status, 200, 'a token' for @first;
is entries(@first), 8, 'control: all are found in memory';
is http_get($port, '/', token => token_of(1))->status, 200, 'another one' for 1 .. 8;
is entries(@first), 0, 'nothing is left of those that had to go';

$t->done;
