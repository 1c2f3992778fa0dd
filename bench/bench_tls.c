// SPDX-License-Identifier: Apache-2.0
/* ./dev bench tls: what authenticated and encrypted connections cost. */
#include <string.h>

#include "auth_tls.h"
#include "base/log.h"
#include "table.h"

int main(int argc, char **argv)
{
	log_set_level(LOG_ERROR);
	if (argc > 1 && strcmp(argv[1], "--json") == 0)
		table_json();
	table_begin("tls");
	auth_tls_rows();
	return table_end();
}
