# The last good set on disk: a restart while the issuer is down serves, up to
# the hard age counted from the fetch; a bad file is ignored with one line.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Keys;
use Test::More;
use Time::HiRes qw(sleep time);

my $t = Platform::Test->new;
my ($key, $new) = map { jwt_key($_) } qw(a b);
my $issuer = $t->issuer(body => jwks($key));
my $file = $t->dir . '/cache/keys';
my $head = 198;

sub configure {
    my (%o) = @_;

    my $soft = $o{soft} // 2;
    my $hard = $o{hard} // 3600;
    return keys_gateway($t, location => $o{location} // '', keys => <<"KEYS");
platform_gateway_key_cache_file $file;
platform_gateway_key_soft_age ${soft}s;
platform_gateway_key_hard_age ${hard}s;
platform_gateway_key_cooldown 1s;
KEYS
}

sub restart {
    $t->nginx->stop;
    $t->nginx->start;
    return;
}

sub cached { return $t->read_file('cache/keys') // '' }

sub fetched { return cached() =~ /^fetched (\d+)$/m ? $1 : 0 }

sub ignored { return grep {/ ignored: /} split /\n/, $t->nginx->error_log }

# A directory that cannot be written to.

my $nginx = configure();
$t->start_nginx;
ok $nginx->wait_log(qr/"\Q$file\E" cannot be written: give ".*\/cache\/" to/),
    'a directory that is missing is told at the start';
is scalar(() = $nginx->error_log =~ /cannot be written/g), 1, 'once';
ok eventually(sub { keys_get($t, $key)->status == 200 }), 'and does no harm';
my $made = CORE::time();
mkdir $t->dir . '/cache' or die;

# What was fetched is there.

ok eventually(sub { -s $file }), 'the file is written with the next fetch';
is substr(cached(), $head), jwks($key), 'it holds the document';
cmp_ok fetched(), '>=', $made - 5, 'and the time';
cmp_ok fetched(), '<=', time, 'which is not to come';
is +(stat $file)[2] & 07777, 0600, 'for the worker alone';

my $inode = (stat $file)[1];
link $file, "$file-old" or die;    # or its number could come again
my $then = fetched();
ok eventually(sub { fetched() > $then }),
    'the time moves on while the document is the same';
is substr(cached(), $head), jwks($key), 'which is there whole';
isnt +(stat $file)[1], $inode, 'in a new file';
unlink "$file-old";

$issuer->set(body => jwks($key, $new));
ok eventually(sub { cached() =~ /"b"|b/ && keys_get($t, $new)->status == 200
    && substr(cached(), $head) eq jwks($key, $new) }),
    'a new document replaces it';
is_deeply [ glob "$file.*" ], [], 'and no other is left';

# A set is as old as the beginning of its fetch, however slow that was.

my $later = jwks($key, $new) . "\n";
$issuer->set(hold => 1, body => $later);
my $count = $issuer->count;
ok eventually(sub { $issuer->count > $count }), 'a fetch';
my $asked = CORE::time();
sleep 1.1;
$issuer->set(hold => 0);
my $text;
ok eventually(sub { $text = cached(); substr($text, $head) eq $later }),
    'that is slow';
my ($at) = $text =~ /^fetched (\d+)$/m;
cmp_ok $at, '<=', $asked, 'is kept with the time at which it began';

# A restart while the issuer is down.

$issuer->down;
restart();
is keys_get($t, $new)->status, 200, 'a restart with the issuer down serves';
is http_get($t->port('gateway'), '/readyz')->status, 200, 'and is ready';
is keys_get($t, jwt_key('c'), iat => past())->status, 401,
    'keys that are in no set are refused';
my $good = cached();
is ignored(), 0, 'nothing was ignored so far';

# Files that are of no use: the start is a cold one then.

sub time_of {
    my ($at) = @_;

    return $good =~ s/^(fetched )\d+/sprintf '%s%020d', $1, $at/emr;
}

my $damaged = $good;
substr $damaged, $head + 20, 1, '~';
my $weak = $good;
substr $weak, $head, length($weak) - $head, '{"keys":[]}';
my @bad = (
    'it is truncated'       => substr($good, 0, 100),
    'it is damaged'         => $damaged,
    'it is damaged'         => substr($good, 0, -1),
    'it is damaged'         => $weak,
    'it is damaged'         => $good =~ s/fetched 0/fetched x/r,
    'it is damaged'         => "\0" x length $good,
    'it is too large'       => $good . ' ' x 65536,
    'another issuer'        => $good =~ s/(source .)(.)/$1 . ($2 eq '0' ? 1 : 0)/er,
    'it is from the future' => time_of(time + 3600),
    'it is past the hard age' => time_of(time - 3700),
);
while (my ($why, $content) = splice @bad, 0, 2) {
    my $before = () = ignored();
    $t->write_file('cache/keys', $content);
    restart();
    is keys_get($t, $key)->status, 503, "$why: a cold start";
    is scalar(ignored()), $before + 1, 'one line';
    like +(ignored())[-1], qr/ignored: .*$why/, 'says it';
}
$t->write_file('cache/keys', time_of(time - 3000));
restart();
is keys_get($t, $key)->status, 200, 'one of 50 minutes ago is good';

# The hard age counts from the fetch, not from the start.

my $hard = 25;
$t->write_file("cache/keys", time_of(time - 10));
configure(hard => $hard, soft => $hard);
my $started = time;
restart();
is keys_get($t, $key)->status, 200, 'a set that is not too old';
ok eventually(sub { keys_get($t, $key)->status == 503 }),
    'ends';
cmp_ok time - $started, '<', $hard, 'at the hard age after it was fetched';

# The issuer comes back: fetched at once, whatever the age of the file.

$t->write_file('cache/keys', time_of(time));
configure(soft => 3000);
restart();
$issuer->set(body => jwks($new));
$issuer->up;
ok eventually(sub { keys_get($t, $key, iat => past())->status == 401 }),
    'a key that was removed meanwhile is soon gone';
is keys_get($t, $new)->status, 200, 'and the others work';

# A reload has its set in the zone, and does not look at the file.

unlink $file;
$issuer->down;
ok $t->reload, 'a reload without the file';
is keys_get($t, $new)->status, 200, 'serves on';

$t->done;
