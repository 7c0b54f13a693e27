# configure.sh: an nginx that the module is not for is refused in one sentence.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new(module => 0);
my $nginx = Platform::Test::Env::nginx();
my $config = $t->root . '/build/config.mk';
my $before = (stat $config)[9];

# What configure.sh says of the nginx that it has, were it of that version.
# The sources are those of the real one, so nothing is ever configured.
sub configure {
    my ($version) = @_;

    my $fake = $t->write_file('nginx', <<"SH");
#!/bin/sh
[ "\$1" != -v ] || { echo 'nginx version: nginx/$version' >&2; exit; }
exec $nginx "\$@"
SH
    chmod 0755, $fake;
    my $said = qx{@{[ $t->root ]}/configure.sh --with-nginx=$fake 2>&1};
    isnt $?, 0, "$version: not what the sources are of";
    return $said;
}

for my $old ('0.9.7', '1.9.15', '1.18.0', '1.21.6') {
    like configure($old), qr/^ +nginx +UNUSABLE: .* is \Q$old\E, but 1\.22 or/m,
        "$old: too old";
}
for my $new ('1.22.0', '1.31.99', '1.100.0', '2.0.0') {
    like configure($new), qr/^ +nginx +\Q$new\E \(/m, "$new: not too old";
}
is((stat $config)[9], $before, 'the configuration in use is as it was');

$t->done;
