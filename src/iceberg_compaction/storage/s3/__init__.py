"""Files in S3 with as few requests as possible. Paths come in; bytes go in and out. Whatever the plain requests of this
package cannot do (instance roles, proxies, large uploads, other stores) goes through Arrow's client as before."""
