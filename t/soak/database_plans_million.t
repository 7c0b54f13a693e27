# The plans of id_database_plans.t, on a million sessions.

use strict;
use warnings;
use FindBin;

$ENV{PLATFORM_TEST_SESSIONS} = 1_000_000;
exec $^X, "$FindBin::Bin/../id_database_plans.t" or die "exec: $!\n";
