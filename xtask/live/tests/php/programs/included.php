<?php

namespace Chains;

function from_included(): int
{
    return leaf();
}

return from_included();
