"""Coroutines under asyncio."""
import asyncio

import truth


async def leaf():
    await asyncio.sleep(0)
    truth.spin()


class Resource:
    async def __aenter__(self):
        return self

    async def __aexit__(self, *reason):
        await leaf()  # through C before 3.12


async def pages():
    yield 1
    async with Resource():  # through C before 3.12
        pass


async def inner():
    async for _ in pages():  # through C
        pass


async def main():
    await asyncio.gather(asyncio.sleep(0), inner())


asyncio.get_event_loop_policy().new_event_loop().run_until_complete(main())
