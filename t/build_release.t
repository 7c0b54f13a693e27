# make release: refuses what is not committed; its files are verified, and made again,
# by SECURITY.md's commands.  A stand-in for tools/deb packs what is built already, so
# what compiles packages need not be installed; and one for tools/client, which
# http_client.t tries.

use Platform::Test;
use Platform::Test::Page qw(commands steps);

use Digest::SHA;
use JSON::PP;

Platform::Test::Env::plain('packages have no sanitizer mode');
plan skip_all => "no $_ (./configure.sh --install-test-deps)"
    for grep { system("command -v $_ >/dev/null") } qw(git minisign dpkg-deb objdump);
my $control = 'sed /nginx-dev/d ' . Platform::Test::Env::root() . '/debian/control';
plan skip_all => "the packages $1 are missing"
    if qx{$control | dpkg-checkbuilddeps -I /dev/stdin 2>&1} =~ /dependencies: (.*)/;

my $t = Platform::Test->new(module => 0);
my ($root, $repo) = ($t->root, $t->dir . '/repo');
my $build = Platform::Test::Env::build();

# A script in the checkout; (did it work, what it printed).
sub there ($script) {
    my $said = qx{cd $repo || exit; exec 2>&1
export RELEASE_KEY=$repo.key HOME=$repo.home GIT_CEILING_DIRECTORIES=@{[ $t->dir ]}
$script};
    return ($? == 0, $said);
}

sub works ($what, $script) {
    my ($ok, $said) = there($script);
    ok $ok, $what or diag $said;
    return $said;
}

$t->write_file('repo/tools/deb', <<"SH");
#!/bin/sh
set -e
umask 022
cd "\$(dirname "\$0")/.."
mkdir -p build/deb
for half in libnginx-mod-http-platform-gateway:lib/nginx/modules:$build/*.so \\
    platform-identity:bin:$build/identity-fcgi/identity-fcgi; do
    name=\${half%%:*} rest=\${half#*:}
    mkdir -p \$name/DEBIAN \$name/usr/\${rest%%:*}
    cp \${rest#*:} \$name/usr/\${rest%%:*}/
    cp text \$name/usr/
    printf '%s\\n' "Package: \$name" 'Version: 0.2.0' 'Maintainer: none <none\@localhost>' \\
        "Architecture: \$(dpkg --print-architecture)" 'Description: none' >\$name/DEBIAN/control
    find \$name -exec touch -d \@1 {} +
    SOURCE_DATE_EPOCH=1 dpkg-deb -Znone --root-owner-group -b \$name build/deb
done
SH
$t->write_file('repo/tools/client', qq(#!/bin/sh\ncp "\$(dirname "\$0")/../text" "\$1/client.tgz"\n));
$t->write_file('repo/text', "one\n");
$t->write_file('repo/.gitignore', "/build/\n");
works('a checkout and a key', <<"SH");
set -e
git init -q
mkdir jose debian $repo.home
cp $root/tools/release $root/tools/sbom $root/tools/version tools/
cp $root/.gitattributes .
echo '## 0.2.0 - 2026-01-01' >CHANGELOG.md
$control >debian/control
echo '#define PLATFORM_VERSION "0.2.0"' >jose/pj_version.h
chmod 755 tools/*
git config user.name none
git config user.email none\@localhost
git add .
git commit -qm first
minisign -GW -p $repo.pub -s $repo.key
cp $repo.key in.key
printf 'in.key\\n' >.git/info/exclude
SH

# -- what it refuses --------------------------------------------------------------

for my $case (
    [ 'a changed file', 'echo two >text', qr/not committed: text$/ ],
    [ 'a staged file', 'echo two >text; git add text', qr/not committed: text$/ ],
    [ 'a new file', 'echo >new', qr/not committed: new$/ ],
    [ 'no key', 'unset RELEASE_KEY', qr/RELEASE_KEY names no secret key/ ],
    [ 'a key among the sources', 'RELEASE_KEY=in.key', qr/in\.key is among the sources/ ],
    [ 'a version of another commit',
        'git tag v0.2.0; git commit -q --allow-empty -m second',
        qr/is 0\.3\.0~git\S+: the tag of its release is not here$/ ],
    [ 'a commit without a tag', ':', qr/is 0\.2\.0~git\S+: the tag of its release is not here$/ ],
) {
    my ($name, $before, $told) = @$case;
    my ($ok, $said) = there("$before; tools/release");
    ok !$ok, "$name is refused";
    like $said, qr/\Arelease: [^\n]*$told/m, '... and told';
    ok !-e "$repo/build/release", '... and nothing is made';
    there('git tag -d v0.2.0; git reset -q --hard $(git rev-list --max-parents=0 HEAD); git clean -qfd');
}

# -- a release -----------------------------------------------------------------------

works('the version of this commit', 'git tag v0.2.0; tools/release');
my $release = "$repo/build/release";
my $files = qx{cd $release && cat *};
is $t->read_file('repo/build/release/client.tgz'), "one\n", 'it has the client for npm';
works('made again elsewhere', "git clone -q . $repo.2; cd $repo.2; umask 077;"
    . ' LC_ALL=C TZ=Asia/Tokyo tools/release; diff -r --exclude=SHA256SUMS.minisig'
    . " build/release $release");

# -- SECURITY.md: each of its commands --------------------------------------------------

my ($verify, $rebuild) = map { $_->[0] } steps("$root/SECURITY.md", 'Verifying a release');
my $copy = "cp -r $release $repo.copy; cp $repo.pub $repo.copy/minisign.pub; cd $repo.copy;";

for my $case (
    [ 'a release is good', 1, '' ],
    [ 'another package', 0, 'echo | tee -a platform-identity_*.deb' ],
    [ 'another SBOM', 0, 'echo | tee -a *.spdx.json' ],
    [ 'sums of the other package', 0,
        'echo | tee -a platform-identity_*.deb; sha256sum *.deb *.gz *.json >SHA256SUMS' ],
    [ 'another key', 0, 'minisign -GWf -p minisign.pub -s ../other.key' ],
    [ 'no signature', 0, 'rm SHA256SUMS.minisig' ],
) {
    my ($name, $good, $before) = @$case;
    my ($ok, $said) = there("set -e; rm -rf $repo.copy; $copy $before\n$verify");
    is $ok, !!$good, $name or diag $said;
}
works('it is made again', "set -e; rm -rf $repo.copy; $copy $rebuild");
ok !(there("set -e; rm -rf $repo.copy; $copy echo | tee -a platform-identity_*.deb\n$rebuild"))[0],
    'a package that is not of these sources is seen';

# -- the SBOM --------------------------------------------------------------------------

my $bom = decode_json($t->read_file('repo/build/release/platform-gateway-0.2.0.spdx.json'));
my %element = map { $_->{SPDXID} => $_ } $bom, @{ $bom->{packages} }, @{ $bom->{files} };
is keys %element, 1 + @{ $bom->{packages} } + @{ $bom->{files} }, 'each id is there once';
is_deeply [ grep { !/\ASPDXRef-[A-Za-z0-9.-]+\z/ } keys %element ], [], 'and of the form of ids';
is "@$bom{qw(spdxVersion dataLicense SPDXID)}", 'SPDX-2.3 CC0-1.0 SPDXRef-DOCUMENT', 'SPDX 2.3';
like $bom->{documentNamespace}, qr/\Aurn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\z/,
    'a namespace of its own';
like $bom->{creationInfo}{created}, qr/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\z/, 'a time';
is_deeply [ grep { my $p = $_; grep { !defined $p->{$_} }
    qw(SPDXID name versionInfo downloadLocation) } @{ $bom->{packages} } ], [],
    'packages say what they have to';
my %related;
for my $r (@{ $bom->{relationships} }) {
    my ($from, $to) = map { $element{$_} } @$r{qw(spdxElementId relatedSpdxElement)};
    fail("$r->{relationshipType} of what is not there") if !$from || !$to;
    push @{ $related{"$from->{name} $r->{relationshipType}"} }, $to;
}
for my $p (grep { $_->{packageFileName} } @{ $bom->{packages} }) {
    my %sum = map { @$_{qw(algorithm checksumValue)} } @{ $p->{checksums} };
    is $sum{SHA256}, Digest::SHA->new(256)->addfile("$release/$p->{packageFileName}")->hexdigest,
        "$p->{packageFileName}: its checksum";
    next if !$p->{filesAnalyzed};
    my $has = $related{"$p->{name} CONTAINS"};
    is join(' ', sort map { $_->{fileName} } @$has),
        join(' ', sort map {m{ (\./\S*[^/\s])$}} qx{dpkg-deb -c $release/$p->{packageFileName}}),
        '... and its files';
    is $p->{packageVerificationCode}{packageVerificationCodeValue},
        Digest::SHA::sha1_hex(join '', sort map { $_->{checksums}[0]{checksumValue} } @$has),
        '... and what they are, in one';
    my %linked = map { $_->{name} => $_->{versionInfo} } @{ $related{"$p->{name} DYNAMIC_LINK"} };
    my ($binary) = glob $p->{name} =~ /identity/ ? "$build/identity-fcgi/identity-fcgi"
        : "$build/*.so";
    is keys %linked, () = qx{objdump -p $binary} =~ /NEEDED/g, '... and each library';
    is $linked{$_}, qx{dpkg-query -W -f '\${Version}' $_:\$(dpkg --print-architecture)},
        "... $_ in its version" for sort keys %linked;
}

$t->done;
