# keys rotate from RS256 to ES256, killed at each of its steps and run again, while
# clients refresh and work through a gateway: not one request is refused.

use JSON::PP;
use Platform::Test;
use Platform::Test::KeyDir;
use Time::HiRes qw(time);

Platform::Test::Env::plain('a sanitizer and the library that kills do not mix');

my $t = Platform::Test->new;
my $access_ttl = 4;
my $dir = key_dir($t);
my $old = jwt_key('identity');
key_put($dir, $old, 'signing', 100);
my %env = (
    key_dir_env($dir),
    PLATFORM_JWT_ISSUER => 'http://127.0.0.1:' . $t->port('identity'),
    PLATFORM_JWT_ACCESS_TOKEN_TTL  => "${access_ttl}s",
    PLATFORM_JWT_REFRESH_TOKEN_TTL => '20m',
);
my @identity = map { $t->identity(name => $_, %env) } qw(a b);
my $stack = $t->full_stack(identity => \@identity, env => \%env, key_age => '1s');

# -- load: clients that use every token until shortly before its end ----------

sub session {
    my $login;    # may have to wait for a hash slot
    eventually(sub { ($login = $stack->login('one'))->status == 200 }) or die 'no login';
    return $login->json;
}

sub client ($=) {
    my $session = session();
    my @kept = ([ time, $session->{accessToken} ]);
    until (-e $t->dir . '/enough') {
        my $res = $stack->refresh($session->{refreshToken});
        print 'refresh ', $res->status, ' ', $res->code // '', "\n";
        $session = $res->json;
        push @kept, [ time, $session->{accessToken} ];
        shift @kept while $kept[0][0] < time - $access_ttl / 2;
        for my $token ($kept[0][1], $kept[-1][1]) {
            my $res = $stack->current_context($token);
            print 'context ', $res->status, ' ', $res->code // '', "\n";
        }
        sleep 0.1;
    }
}

my @late = session();    # of the old key, refreshed late
my $load = Platform::Test::Crowd->new($t, 'load', 2, \&client);

sub kid_of { return (jwt_decode($_[0]))[0]{kid} }

# A token of the old key, from before the gateway last fetched: a newer one of a
# key that is gone may wait for a fetch, and get 503.
sub at_gateway {
    return $stack->current_context(jwt_token('branch', $old,
        iss => $env{PLATFORM_JWT_ISSUER}, iat => time - 60))->status;
}

is at_gateway(), 200, 'the gateway accepts the old key';

# -- the rotation --------------------------------------------------------------

my $killer = key_killer($t);
my ($words) = $t->read_file($t->root . '/docs/key-rotation.md')
    =~ /^### To another algorithm\n+```sh\nidentity (keys rotate [^\n]+ ES256)\n```/m;
my @rotate = (split(/ /, $words), qw(--every 1h --system-ttl 0));
my @ask = ('--ask', 'http://127.0.0.1:' . $t->port('metrics') . '/internal/metrics');
my (%killed, @states);
my $n = 1;
my $until = time + 600;
my $state = sub {
    my $states = key_states($dir);
    return join ' ', sort map { ($_ eq $old->kid ? 'old:' : 'new:')
        . $states->{$_} } keys %$states;
};
my $change = sub {
    my $now = $state->();
    return if @states && $states[-1] eq $now;
    push @states, $now;
    push @late, map { session() } 1 .. 3 if $now =~ /new:published/;
    # Refresh tokens of the old key are good in each state.
    if (my $session = $now =~ /old:/ ? shift @late : undef) {
        my $res = $stack->refresh($session->{refreshToken});
        is $res->status, 200, "$now: a refresh token of the old key";
    }
};
$change->();
until ($state->() eq 'new:signing' || time > $until) {
    # However slow a run is, it takes one step: without --ask the second one is
    # due in ten minutes.
    my ($status, $out, $err) = $t->run_identity(
        [ @rotate, $states[-1] eq 'old:signing' ? () : @ask ], %env,
        $killer->($n));
    if ($status == 128 + 9) {
        $killed{ $states[-1] }++;
        $n++;
        $change->();
        my ($good, undef, $why) = $t->run_identity(['--check'], %env);
        is $good, 0, "killed $n: the directory is good" or diag $why;
        next;
    }
    # Where it asks before the gateway has fetched, it says so.
    diag $err if $status != 0 && $err !~ /does not have the new key yet$/;
    $n = 1 if $status == 0;
    sleep 0.1;
    $change->();
    # What is added for clocks that differ, half a minute, is over; the last step
    # is due twenty minutes later: so be it.
    my ($signing) = $states[-1] =~ /signing old:signing/
        ? grep { /\.signing\.(\d+)\.pem$/ && $1 > time - 25
            && index($_, $old->kid) < 0 } key_names($dir) : ();
    rename "$dir/$signing", "$dir/" . $signing =~ s/(\d+)(?=\.pem)/$1 - 30/er if $signing;
    my ($retired) = grep {/\.refresh\.(\d+)\.pem$/ && $1 > time - 1200} key_names($dir);
    rename "$dir/$retired", "$dir/" . $old->kid . '.refresh.1.pem' if $retired;
}
is_deeply \@states, [ 'old:signing', 'new:published old:signing',
    'new:signing old:signing', 'new:signing old:refresh', 'new:signing' ],
    'all steps, in their order' or diag explain \@states;
is_deeply \%killed, { 'old:signing' => 5, 'new:published old:signing' => 2,
    'new:signing old:signing' => 7, 'new:signing old:refresh' => 2 },
    'killed before each of its writes, and run again';
is_deeply [ grep {/^\./} key_names($dir) ], [], 'nothing is left over';

# -- what they saw -------------------------------------------------------------

ok eventually(sub { at_gateway() == 401 }), 'the gateway drops the old key';
is_deeply [ @{ (jwt_decode(session()->{accessToken}))[0] }{qw(kid alg)} ],
    [ keys %{ key_states($dir) }, 'ES256' ], 'and the new one signs';
ok eventually(sub { 100 < grep {/^refresh 200/} $load->lines }), 'clients have refreshed often';
$t->write_file('enough', '');
ok $load->ends(60), 'the clients end';
my %seen;
$seen{$_}++ for $load->lines;
my $refreshes = delete $seen{'refresh 200 AUTH_REFRESH_SUCCESS'};
my ($context) = grep {/^context 200/} keys %seen;
my $contexts = delete $seen{ $context // '' };
cmp_ok $refreshes, '>', 100, 'clients refreshed';
is_deeply \%seen, {}, "$refreshes refreshes and $contexts business calls: "
    . 'every one a 200' or diag explain \%seen;

# -- a key that is no longer secret ----------------------------------------------

key_put($dir, $old, 'signing', 1 + int time);
my $session;
ok eventually(sub { $session = session();
    kid_of($session->{refreshToken}) eq $old->kid }, 60), 'a known key signs';
ok eventually(sub { at_gateway() == 200 }, 30), 'which the gateway accepts';
my ($status, undef, $err) = $t->run_identity([ qw(keys revoke), $old->kid ], %env);
is $status, 0, 'it is revoked' or diag $err;
for my $identity (@identity) {
    my $ask = sub { return $t->fcgi($identity->address)->request(@_) };
    ok eventually(sub { $ask->(GET => '/.well-known/jwks.json')->{body}
        !~ /"identity"/ }, 60), 'a process drops it';
    my $res = $ask->(POST => '/api/auth/refresh', body =>
        encode_json({ refreshToken => $session->{refreshToken} }));
    is "$res->{status} " . decode_json($res->{body})->{code},
        '401 AUTH_REFRESH_TOKEN_INVALID', 'and refuses its refresh tokens';
}
ok eventually(sub { at_gateway() == 401 }), 'the gateway drops it';
my $after = session();
isnt kid_of($after->{accessToken}), $old->kid, 'a login has a token of another one';
is $stack->current_context($after->{accessToken})->status, 200, 'which the gateway accepts';
is at_gateway(), 401, 'and none of the revoked one';

$t->done;
