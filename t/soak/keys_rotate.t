# keys rotate, three times in a row, under 500 requests a second from login to
# the gateway: nobody who has a valid token is refused.

use JSON::PP;
use Platform::Test;
use Platform::Test::KeyDir;
use Platform::Test::Load;
use Time::HiRes qw(time);

my $ROUNDS = $ENV{SOAK_ROUNDS} // 3;
my $RATE = 500;
my $CLIENTS = 64;
my $ACCESS_TTL = 5;

my $t = Platform::Test->new(timeout => 150 * $ROUNDS + 120);
my $dir = key_dir($t);
key_put($dir, jwt_key('identity'), 'signing', 100);
my %env = (key_dir_env($dir), PLATFORM_HTTP_ACCESS_LOG_ENABLED => 'false',
    PLATFORM_JWT_ISSUER => 'http://127.0.0.1:' . $t->port('identity'),
    PLATFORM_JWT_ACCESS_TOKEN_TTL => "${ACCESS_TTL}s", PLATFORM_JWT_REFRESH_TOKEN_TTL => '60s',
    map { ("PLATFORM_AUTH_MAX_$_" => 0) } qw(FAILURES SESSIONS));
my @identity = map { $t->identity(name => $_, %env) } qw(a b);
my $stack = $t->full_stack(identity => \@identity, env => \%env, key_age => '2s',
    edit => sub { s/(events \{)/$1 worker_connections 1024;/ if !/worker_connections/ });

# A client logs in, refreshes with every tenth request and when its turn comes
# late, uses its newest token and one of some seconds ago, and logs in again
# after three hundred, or when its refresh token is old.
sub clients ($=) {
    my $load = Platform::Test::Load->new(
        port => $stack->gateway, clients => $CLIENTS, timeout => 20);
    my (%count, %kid);
    my ($late, $sent, $logging_in, $start) = (0, 0, 0, time);

    my $next = sub ($c, @) {
        return if -e $t->dir . '/enough';
        my $due = $start + $sent / $RATE;
        return { wait => 0.005 } if $due > time;
        $start = time - $sent / $RATE if $due < time - 1;    # no catching up
        my $request = { client => $c };
        my $s = $c->{session};
        if (!$s || $s->{used} > 300 || $s->{at} < time - 50) {
            return { wait => 0.1 } if $logging_in >= 2;
            $logging_in++;
            @$request{qw(path json)} = ('/api/auth/login', { account => 'one@demo.test',
                credential => $Platform::Test::Stack::CREDENTIAL });
        }
        elsif ($s->{used}++ % 10 == 9 || $s->{at} < time - $ACCESS_TTL + 2) {
            @$request{qw(path json)} = ('/api/auth/refresh',
                { refreshToken => $s->{refreshToken} });
        }
        else {
            @$request{qw(method path token)} = ('GET', '/api/workspaces/current-context',
                $s->{used} % 2 ? $s->{accessToken} : $s->{before} // $s->{accessToken});
            my $kept = $s->{kept};
            shift @$kept while @$kept && $kept->[0][0] < time - $ACCESS_TTL + 2;
            $s->{before} = @$kept ? $kept->[0][1] : undef;
        }
        $sent++;
        return $request;
    };
    my $done = sub ($request, $answer, @) {
        my $c = $request->{client};
        # A client that had to wait may use one that has expired by then.
        return $late++ if $request->{token} && $answer->{code} eq 'GATEWAY_TOKEN_EXPIRED'
            && (jwt_decode($request->{token}))[1]{exp} <= time;
        $count{ ($request->{path} =~ s{.*/}{}r) . " $answer->{status} $answer->{code}" }++;
        $logging_in-- if $request->{path} =~ /login$/;
        return if $request->{method};
        return delete $c->{session} if $answer->{status} != 200;
        my $json = decode_json($answer->{body});
        $kid{ (jwt_decode($json->{accessToken}))[0]{kid} }++;
        my $s = $c->{session};
        $c->{session} = { at => time, used => $request->{path} =~ /login$/ ? 0 : $s->{used},
            %$json{qw(accessToken refreshToken)}, before => $s->{before},
            kept => [ @{ $s->{kept} // [] }, [ time, $json->{accessToken} ] ] };
    };
    my $began = time;
    $load->run($next, $done);
    print encode_json({ count => \%count, kid => \%kid, rate => $sent / (time - $began),
        sent => $sent, late => $late }), "\n";
}

my $clients = Platform::Test::Crowd->new($t, 'clients', 1, \&clients);

sleep 3;
my @took;
for my $round (1 .. $ROUNDS) {
    my $start = time;
    my ($status, $out, $err) = $t->run_identity([ qw(keys rotate --every 0
        --system-ttl 0 --wait 130s --ask),
        'http://127.0.0.1:' . $t->port('metrics') . '/internal/metrics' ],
        %env, within => 160);
    is $status, 0, "rotation $round" or diag $err;
    is_deeply [ map { /^(\w+) +\S+ +yes/ ? $1 : () } split /\n/, $out ],
        [qw(add activate retire remove)], "rotation $round: all of it"
        or diag $out;
    push @took, sprintf '%.0f s', time - $start;
}
$t->write_file('enough', '');
ok $clients->ends(60), 'the clients end';

my $result = decode_json(($clients->lines)[-1]);
my $count = $result->{count};
diag sprintf '%d requests, %.0f a second, %d of them with a token that had '
    . 'expired; rotations took %s', @{$result}{qw(sent rate late)},
    join ', ', @took;
diag "$_: $count->{$_}" for sort keys %$count;
is scalar(keys %{ $result->{kid} }), $ROUNDS + 1, 'each key signed';
is_deeply [ grep { !/^\S+ 200 / } keys %$count ], [], 'not one request was refused';

$t->done;
