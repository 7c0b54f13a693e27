# Of a hundred refreshes of one token at once exactly one succeeds, and the
# session goes on with what the winner was given.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

# Under valgrind all is so slow that a hundred at once would be refused for
# lack of time; there the question is memory, and fewer will do.
my $slow = Platform::Test::Env::valgrind();
my $count = $slow ? 12 : 100;

my $t = Platform::Test->new;
my $s = $t->full_stack(env => { $slow ? (
    PLATFORM_REQUEST_TIMEOUT      => '12s',
    PLATFORM_DB_STATEMENT_TIMEOUT => '12s',
    PLATFORM_DB_CONNECT_TIMEOUT   => '10s',
) : () });

for my $account ('one', 'several') {
    my $token = $s->login($account)->json->{refreshToken};

    my $bytes = http_request_bytes(POST => '/api/auth/refresh',
        json => { refreshToken => $token });
    my @all = http_parallel([ map { [ $s->gateway, $bytes ] } 1 .. $count ]);

    is scalar(grep {defined} @all), $count, "$account: all are answered";
    my @won = grep { $_ && $_->status == 200 } @all;
    my @lost = grep { $_ && $_->status == 401 } @all;
    is scalar @won, 1, "$account: exactly one succeeds";
    is scalar @lost, $count - 1, "$account: the rest get 401";
    is scalar(grep { $_->code eq 'AUTH_REFRESH_TOKEN_STALE' } @lost),
        $count - 1, "$account: as stale";
    is scalar(grep { $_->header_all('Set-Cookie') } @lost), 0,
        "$account: and no cookie is touched";

    my $winner = $won[0] ? $won[0]->json->{refreshToken} : '';
    my $next = $s->refresh($winner);
    is $next->status, 200, "$account: the session goes on";
    is $s->refresh($winner)->status, 401, "$account: once";
    is $s->refresh($next->json->{refreshToken})->status, 200,
        "$account: and on";
}

# Against two processes at once: the database decides, not a process.

my $two = $t->identity(name => 'two', %{ $s->{env} });
my $face = $t->nginx_conf(<<"CONF", 'second');
%%GLOBALS%%
events { }
http {
    %%GLOBALS_HTTP%%
    server {
        listen 127.0.0.1:%%PORT_second%%;
        location / {
            include %%ROOT%%/nginx.conf.d/identity_fastcgi_params;
            fastcgi_pass ${\ $two->nginx_address};
        }
    }
}
CONF
$t->start_nginx('second');

$count = 10 if $slow;
is http_post($t->port('second'), '/api/auth/login', json => {
    account => 'one@demo.test',
    credential => $Platform::Test::Stack::CREDENTIAL })->status, 200,
    'two processes: the second one serves';
my $token = $s->login('one')->json->{refreshToken};
my $bytes = http_request_bytes(POST => '/api/auth/refresh',
    json => { refreshToken => $token });
my @all = http_parallel([ map {
    [ $_ % 2 ? $s->gateway : $t->port('second'), $bytes ] } 1 .. $count ]);
my @won = grep { $_ && $_->status == 200 } @all;
is scalar @won, 1, 'two processes: exactly one succeeds';
is scalar(grep { $_ && $_->status == 401 } @all), $count - 1,
    'two processes: the rest get 401';
is $s->refresh($won[0]->json->{refreshToken})->status, 200,
    'two processes: the session goes on';

$t->done;
