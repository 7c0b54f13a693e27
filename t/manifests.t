# examples/compose and examples/kubernetes: as the published schemas say, of this
# version, with settings that there are.

use JSON::PP;
use Platform::Test;

my $t = Platform::Test->new;
my ($root, $dir) = ($t->root, $t->dir);
my $node = Platform::Test::Env::node();
my @files = glob "$root/examples/{compose/*.yaml,kubernetes/*.yaml}";

# [name of a document, its faults] of each.
sub judged (@of) { return @{ decode_json(scalar qx{$node $root/t/node/manifests.mjs @of}) } }

my @good = judged(@files);
cmp_ok scalar @good, '>', 12, 'documents';
is_deeply $_->[1], [], $_->[0] for @good;

# [file, what, what in its place, the fault]
my @bad = map { [ "$root/examples/$_->[0]", @$_[ 1 .. 3 ] ] } (
    [ 'compose/compose.yaml', 'read_only:', 'readonly:', 'must NOT have additional properties' ],
    [ 'kubernetes/gateway.yaml', 'livenessProbe', 'livenesProbe', 'specify known properties' ],
    [ 'kubernetes/identity.yaml', 'replicas: 2', 'replicas: two', 'must be integer' ],
    [ 'kubernetes/keys.yaml', 'Forbid', 'Forbidden', 'allowed values' ] );
my @faulty = map {
    my ($file, $from, $to) = @$_;
    $t->write_file($file =~ s{.*/}{}r, $t->read_file($file) =~ s/$from/$to/r);
} @bad;
my @faults = map { @{ $_->[1] } ? "@{ $_->[1] }" : () } judged(map {"$dir/" . s{.*/}{}r} @faulty);
like $faults[$_], qr/$bad[$_][3]/, "$bad[$_][2] is found" for 0 .. $#bad;

my %known = map { $_ => 1 } qw(ENV_FILE ONCE POSTGRES_USER POSTGRES_HOST_AUTH_METHOD),
    split(/\n/, qx{$root/tools/render --settings}),
    qx{@{[ Platform::Test::Env::identity() ]} --print-config} =~ /^(\w+)=/mg;
my ($version) = $t->read_file("$root/jose/pj_version.h") =~ /PLATFORM_VERSION "(.*)"/;
for my $file (@files) {
    my $text = $t->read_file($file);
    is_deeply [ grep { !$known{$_} } $text =~ /(?:name: |^ +)([A-Z][A-Z_]+)(?:,|:)/mg ], [],
        "$file: its variables are settings";
    is_deeply [ grep { $_ ne $version } $text =~ /image: platform-\w+:(\S+)/g ], [],
        "$file: its images are of this version";
}

$t->done;
