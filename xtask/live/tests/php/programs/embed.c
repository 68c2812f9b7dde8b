/* Runs a chain in PHP's library: embed SCRIPT CHAIN NUMBER */

#include <stdio.h>

int php_embed_init(int, char **);
int zend_eval_string(const char *, void *, const char *);
void php_embed_shutdown(void);

int main(int count, char **arguments)
{
    char code[4096];
    if (count != 4)
        return 2;
    snprintf(code, sizeof code, "$_GET = ['chain' => '%s', 'number' => '%s']; require '%s';",
             arguments[2], arguments[3], arguments[1]);
    php_embed_init(count, arguments);
    int failed = zend_eval_string(code, NULL, "embed");
    php_embed_shutdown();
    return failed;
}
