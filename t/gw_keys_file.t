# Keys from a local file: read at the start, again at every soft age and at a
# reload; what is bad later replaces nothing and is said once.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Keys;
use Test::More;
use Time::HiRes qw(sleep);

my $t = Platform::Test->new;
my ($old, $new, $third) = map { jwt_key($_) } qw(a b c);

# As an operator would: beside it, then renamed over it.
sub keys_file {
    my (@keys) = @_;

    my $path = $t->write_file('keys.new', jwks(@keys));
    rename $path, $t->dir . '/keys.json' or die "rename: $!\n";
    return;
}

sub configure {
    my ($soft) = @_;

    return keys_gateway($t, source => '', keys => <<"KEYS");
platform_gateway_key_file @{[ $t->dir ]}/keys.json;
platform_gateway_key_soft_age ${soft}s;
platform_gateway_key_cooldown 1s;
KEYS
}

keys_file($old);
my $nginx = configure(4);
$t->start_nginx;
is keys_get($t, $old)->status, 200, 'the first request finds keys';
is http_get($t->port('gateway'), '/readyz')->status, 200, 'it is ready';
is keys_get($t, $new, iat => past())->status, 401, 'another key is refused';

# Changes are seen.

keys_file($old, $new);
ok eventually(sub { keys_get($t, $new)->status == 200 }, 8),
    'a new file is read after one soft age, not two';
is keys_get($t, $old)->status, 200, 'the old key still works';

$t->write_file('keys.json', jwks($new));
ok eventually(sub { keys_get($t, $old, iat => past())->status == 401 }, 8),
    'so is one that was written in place';

# Bad files.

my @bad = (
    'no such file'    => sub { unlink $t->dir . '/keys.json' },
    'no usable key'   => sub { $t->write_file('keys.json', '{"keys":[]}') },
    'JSON'            => sub { $t->write_file('keys.json', '<html>') },
    'it is too large' => sub { $t->write_file('keys.json',
            jwks($old) . ' ' x 65536) },
    'regular file' => sub { unlink $t->dir . '/keys.json';
        mkdir $t->dir . '/keys.json' },
);
while (my ($said, $do) = splice @bad, 0, 2) {
    my $before = () = keys_failures($t);
    $do->();
    ok eventually(sub { keys_failures($t) > $before }), "$said: logged";
    like +(keys_failures($t))[-1], qr/\Q$said\E.* and kept/i, 'with the why';
    is keys_get($t, $new)->status, 200, 'and the last good one is kept';
}
my $lines = () = keys_failures($t);
sleep 9;    # two soft ages
is scalar(keys_failures($t)), $lines, 'what stays bad is said once';

rmdir $t->dir . '/keys.json';
keys_file($third);
ok eventually(sub { keys_get($t, $third)->status == 200 }),
    'a good one is taken again';

# A reload takes what is there, whatever the age; so does an unknown key.

configure(3600);
keys_file($old);
ok $t->reload, 'a reload';
ok eventually(sub { keys_get($t, $third, iat => past())->status == 401 }),
    'reads the file';
is keys_get($t, $old)->status, 200, 'for every worker';
sleep 2.2;    # the reload's own read, and its cooldown
keys_file($old, $new);
is keys_get($t, $new)->status, 200, 'a token of an unknown key has it read';

# A file that nginx -t refuses leaves the running one alone.

$t->write_file('keys.json', '{}');
$t->allow(qr/\[emerg\] .*platform_gateway_key_file/);
ok !$t->reload, 'a reload with a bad file fails';
like $nginx->error_log, qr/keys\.json" gives no keys: .*, in \S+\.conf:\d+/,
    'and says where';
is keys_get($t, $old)->status, 200, 'the old workers serve';

$t->done;
