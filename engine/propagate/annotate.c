#include "propagate/propagate.h"
