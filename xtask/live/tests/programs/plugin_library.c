/* The other side of plugin.c. */
#include "truth.h"

int plugin_entry(double end);

ALONE int plugin_leaf(double end)
{
    do {
        BURN();
    } while (now() < end);
    return 1;
}

int plugin_entry(double end)
{
    int r = plugin_leaf(end);
    STAY();
    return r + 1;
}
