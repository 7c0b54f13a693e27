package Platform::Test::KeyDir;

# A directory of keys as identity-fcgi reads it: a file a key.

use strict;
use warnings;

use Exporter qw(import);
our @EXPORT = qw(key_dir key_dir_env key_put key_names key_states);

# An empty one of mode 0700.
sub key_dir {
    my ($t, $name) = @_;

    my $dir = $t->dir . '/' . ($name // 'keys');
    mkdir $dir, 0700 or die "$dir: $!\n";
    chmod 0700, $dir;
    return $dir;
}

# The settings that take keys from it, and not from variables.
sub key_dir_env {
    my ($dir) = @_;

    return (PLATFORM_JWT_KEY_DIR => $dir,
        map { ("PLATFORM_JWT_$_" => undef) }
            qw(KEY_ID PRIVATE_KEY_BASE64 PUBLIC_KEY_BASE64));
}

# Puts a key there, as a whole; text => what the file holds, mode => 0600.
# Returns its path.
sub key_put {
    my ($dir, $key, $state, $since, %o) = @_;

    my $file = "$dir/" . $key->kid . ".$state.$since.pem";
    my $text = $o{text} // ($o{public} ? '' : $key->private_pem)
        . $key->public_pem;
    open my $fh, '>', "$dir/.put" or die "$dir/.put: $!\n";
    print {$fh} $text;
    close $fh or die "$dir/.put: $!\n";
    chmod $o{mode} // 0600, "$dir/.put";
    rename "$dir/.put", $file or die "$file: $!\n";
    return $file;
}

# The names of its files, those with a dot in front too.
sub key_names {
    my ($dir) = @_;

    opendir my $dh, $dir or die "$dir: $!\n";
    return sort grep { !/^\.\.?$/ } readdir $dh;
}

# { KID => STATE } as the names say.
sub key_states {
    my ($dir) = @_;

    return { map { /^([^.].*)\.(\w+)\.\d+\.pem$/ ? ($1 => $2) : () }
        key_names($dir) };
}

1;
