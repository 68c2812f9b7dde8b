import truth


class Body(object):  # through C
    truth.spin()
