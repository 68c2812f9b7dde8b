/* The other side of plt.c. */
int plt_leaf(int x);

int plt_leaf(int x)
{
    return x + 1;
}
